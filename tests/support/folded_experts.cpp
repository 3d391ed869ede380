#include "tests/support/folded_experts.hpp"

#include <cmath>

#include "core/plan/chunk_check.hpp"
#include "core/plan/plan_check.hpp"

namespace orrery::test {

bool fold_experts(PlannedRun& run, std::uint64_t seed) {
  Plan& p = run.plan;
  Workload& w = run.workload;
  if (!run.model.mixture || p.tensor != TensorAlgorithm::one_d) return false;
  const bool context = p.mesh.size(Axis::context) > 1, tensor = p.mesh.size(Axis::tensor) > 1;
  const std::uint64_t turn = seed % 3;
  const bool over_context = context && turn != 1, over_tensor = tensor && turn != 0;
  if (!over_context && !over_tensor) return false;
  p.expert_folding = folding_over(over_context, over_tensor);
  if (over_tensor) p.sequence_parallel = true;
  Mixture& m = *run.model.mixture;
  const std::uint64_t ranks = size(p.mesh, expert_axes(p));
  const std::uint32_t before = m.experts;
  while (m.experts % ranks != 0) m.experts += before;
  for (std::vector<double>& row : w.routing.loads) {
    const std::vector<double> known = row;
    while (row.size() < m.experts) row.push_back(known[row.size() % known.size()]);
  }
  const std::uint64_t pieces = routed_pieces(p);
  if (w.sequence_length % pieces != 0) return false;
  const std::uint64_t piece = w.sequence_length / pieces;
  if (w.routing.group == 0 || piece % w.routing.group != 0) w.routing.group = piece;
  if (p.parameter_chunk > Bytes()) {
    const std::uint64_t element = size_of(weight_dtype(w)), unit = element * size(p.mesh, shard_axes_of(p));
    const auto least = static_cast<double>(largest_layer_tensor(p, run.model) * element);
    p.parameter_chunk = Bytes::of(std::ceil(least / static_cast<double>(unit)) * static_cast<double>(unit));
  }
  Diagnostics wrong;
  check(p, run.model, w, nullptr, wrong);
  return wrong.empty();
}

}  // namespace orrery::test
