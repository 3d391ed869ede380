#include "tests/support/gathered_tokens.hpp"

#include "core/plan/plan_check.hpp"
#include "tests/support/folded_experts.hpp"

namespace orrery::test {

bool gather_tokens(PlannedRun& run, std::uint64_t seed) {
  if (!run.model.mixture || run.plan.tensor != TensorAlgorithm::one_d) return false;
  if (seed % 3 == 0 && !fold_experts(run, seed / 3)) return false;
  if (size(run.plan.mesh, expert_axes(run.plan)) == 1) return false;
  run.plan.expert_dispatch = ExpertDispatch::all_gather;
  Diagnostics wrong;
  check(run.plan, run.model, run.workload, nullptr, wrong);
  return wrong.empty();
}

}  // namespace orrery::test
