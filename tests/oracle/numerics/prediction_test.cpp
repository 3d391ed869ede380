#include <catch2/catch.hpp>

#include <map>
#include <string>

#include "core/plan/schedule_rules.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

PlannedRun run_of(std::uint64_t seed, std::uint32_t max_ranks, std::optional<std::uint32_t> expert) {
  RandomRunLimits limits;
  if (seed % 6 == 0) limits.zero_stage = 2 + seed / 6 % 2;
  if (seed % 7 == 0) limits.schedule = seed % 2 == 0 ? ScheduleName::chimera : ScheduleName::dualpipe;
  limits.max_ranks = max_ranks;
  limits.tensor = TensorAlgorithm::one_d;
  limits.predictions = true;
  limits.expert = expert;
  return random_run(seed, limits);
}

}  // namespace

// The table of words may lie on another stage than the modules, and be the head's or not.
TEST_CASE("Prediction modules on any plan equal a single device", "[oracle][numerics][prediction]") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= 140; ++seed) {
    const auto expert = seed % 4 == 0 ? std::optional<std::uint32_t>(seed % 8 == 0 ? 1 : 2) : std::nullopt;
    const PlannedRun run = run_of(12000 + seed, seed % 5 == 0 ? 1 : 12, expert);
    const Mesh& mesh = run.plan.mesh;
    check_run(run, seed, sweep_options(seed));
    seen["tensor"] += mesh.size(Axis::tensor) > 1 ? 1 : 0;
    seen["sequence parallel"] += run.plan.sequence_parallel ? 1 : 0;
    seen["data"] += mesh.size(Axis::data) > 1 ? 1 : 0;
    seen["context"] += mesh.size(Axis::context) > 1 ? 1 : 0;
    seen["ZeRO-1"] += mesh.size(Axis::data) > 1 && run.plan.zero_stage == 1 ? 1 : 0;
    const std::uint32_t zero = mesh.size(Axis::data) > 1 ? run.plan.zero_stage : 0;
    seen["ZeRO-2"] += zero == 2 ? 1 : 0;
    seen["ZeRO-3"] += zero == 3 && run.plan.prefetch == 0 && run.plan.reshard_after_forward ? 1 : 0;
    seen["ZeRO-3 with prefetch"] += zero == 3 && run.plan.prefetch == 1 && run.plan.reshard_after_forward ? 1 : 0;
    seen["ZeRO-3, weights kept"] += zero == 3 && !run.plan.reshard_after_forward ? 1 : 0;
    seen["ZeRO-3, two kinds of layers"] += zero == 3 && mixes_kinds(run.model) ? 1 : 0;
    seen["ZeRO-2 or 3, split backward"] += zero >= 2 && splits_backward(run.plan) ? 1 : 0;
    seen["ZeRO-2 or 3, table elsewhere"] += zero >= 2 && mesh.size(Axis::pipeline) > 1 ? 1 : 0;
    seen["offloaded states"] += run.plan.offload_states != 0U ? 1 : 0;
    seen["offloaded states of modules"] += run.plan.offload_states == 8U ? 1 : 0;
    seen["offloaded parameters"] += run.plan.offload_parameters != 0U ? 1 : 0;
    seen["offloaded activations"] += run.plan.offload_activations != 0U ? 1 : 0;
    seen["two pipes"] += stage_map(run.plan).two_way() ? 1 : 0;
    seen["clipping"] += run.workload.clip_norm ? 1 : 0;
    seen["table elsewhere, tied"] += mesh.size(Axis::pipeline) > 1 && run.model.tied_embeddings ? 1 : 0;
    seen["table elsewhere, not tied"] += mesh.size(Axis::pipeline) > 1 && !run.model.tied_embeddings ? 1 : 0;
    seen["two modules"] += run.model.prediction_modules == 2 ? 1 : 0;
    seen["split backward"] += splits_backward(run.plan) ? 1 : 0;
    seen["all recomputed"] += run.plan.recompute == Recompute::full && !run.plan.recompute_layers ? 1 : 0;
    seen["some recomputed"] += run.plan.recompute_layers ? 1 : 0;
    seen["mixture"] += run.model.mixture ? 1 : 0;
  }
  for (const auto& [kind, count] : seen) {
    CAPTURE(kind);
    CHECK(count > 0);
  }
}

}  // namespace orrery::test
