#include <catch2/catch.hpp>
#include <string>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

/// Pieces in which the loss of this run can be made, by turns few and many; 1: there are none.
std::uint32_t pieces_of(const PlannedRun& run, std::uint64_t seed) {
  if (run.plan.tensor != TensorAlgorithm::one_d || run.model.architecture == Architecture::vit) return 1;
  const std::uint64_t positions = run.workload.sequence_length / run.plan.mesh.size(Axis::context);
  std::uint64_t n = seed % 3 == 0 ? positions : 2 + seed % 4;
  while (positions % n != 0) --n;
  return static_cast<std::uint32_t>(n);
}

RandomRunLimits limits_of(std::uint64_t seed) {
  RandomRunLimits limits;
  limits.architectures = seed % 9 == 0;
  limits.predictions = seed % 9 == 1;
  limits.chunks = seed % 9 == 2;
  if (seed % 7 == 0) limits.schedule = seed % 2 == 0 ? ScheduleName::chimera : ScheduleName::dualpipe;
  if (!limits.architectures) limits.tensor = TensorAlgorithm::one_d;
  return limits;
}

}  // namespace

// The backward pass makes all that logits are needed for. So weights must be there, and gradients not yet reduced, in
// every schedule and with every way to share weights.
TEST_CASE("Plans with the loss in chunks compute what a single device computes", "[oracle][numerics][loss]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 420; ++seed) {
    PlannedRun run = random_run(20000 + seed, limits_of(seed));
    Plan& p = run.plan;
    p.loss_chunks = pieces_of(run, seed);
    if (p.loss_chunks == 1) continue;
    const Workload& w = run.workload;
    const bool stages = p.mesh.size(Axis::pipeline) > 1, several = p.mesh.size(Axis::data) > 1;
    Coverage::Kinds kinds;
    kinds["tensor"] = p.mesh.size(Axis::tensor) > 1;
    kinds["sequence parallel"] = p.sequence_parallel;
    kinds["context"] = p.mesh.size(Axis::context) > 1;
    kinds["zigzag"] = p.zigzag;
    kinds["a position in each"] = p.loss_chunks * p.mesh.size(Axis::context) == w.sequence_length;
    for (std::uint32_t zero = 0; zero < 3; ++zero) {
      kinds["ZeRO-" + std::to_string(zero)] = several && p.zero_stage == zero;
      kinds["ZeRO-" + std::to_string(zero) + ", sequence parallel"] =
          several && p.zero_stage == zero && p.sequence_parallel;
    }
    kinds["ZeRO-3 with prefetch"] = several && p.zero_stage == 3 && p.reshard_after_forward && p.prefetch == 1;
    kinds["ZeRO-3 without prefetch"] = several && p.zero_stage == 3 && p.reshard_after_forward && p.prefetch == 0;
    kinds["ZeRO-3, weights kept"] = several && p.zero_stage == 3 && !p.reshard_after_forward;
    kinds["ZeRO-3 in chunks"] = several && p.parameter_chunk > Bytes();
    kinds["schedule " + std::string(name_of(p.schedule))] = stages;
    kinds["ZeRO-2 or 3, split backward"] = several && p.zero_stage >= 2 && splits_backward(p);
    kinds["recompute full"] = p.recompute == Recompute::full;
    kinds["recompute selective"] = p.recompute == Recompute::selective;
    kinds["tied on one stage"] = !stages && run.model.tied_embeddings;
    kinds["tied across stages"] = stages && run.model.tied_embeddings;
    kinds["untied"] = !run.model.tied_embeddings;
    kinds["tied, ZeRO-3"] = several && p.zero_stage == 3 && run.model.tied_embeddings;
    kinds["prediction modules"] = run.model.prediction_modules > 0;
    kinds["prediction modules, ZeRO-3"] = run.model.prediction_modules > 0 && several && p.zero_stage == 3;
    kinds["mixture"] = run.model.mixture.has_value();
    kinds["BERT"] = run.model.architecture == Architecture::bert;
    kinds["latent attention"] = run.model.latent.has_value();
    kinds["offloaded states"] = p.offload_states != 0U;
    kinds["offloaded parameters"] = p.offload_parameters != 0U;
    kinds["offloaded activations"] = p.offload_activations != 0U;
    kinds["clipping"] = w.clip_norm.has_value();
    kinds["16-bit gradients"] = gradient_dtype(w) != state_dtype(w);
    kinds["precision " + std::string(name_of(w.precision))] = true;
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

}  // namespace orrery::test
