#include <catch2/catch.hpp>

#include <map>
#include <string>

#include "core/plan/schedule_rules.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
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

// The table of words may lie on another stage than the modules, and may be the head's or not.
TEST_CASE("Prediction modules on any plan equal a single device", "[oracle][numerics][prediction]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 140; ++seed) {
    const auto expert = seed % 4 == 0 ? std::optional<std::uint32_t>(seed % 8 == 0 ? 1 : 2) : std::nullopt;
    const PlannedRun run = run_of(12000 + seed, seed % 5 == 0 ? 1 : 12, expert);
    const Mesh& mesh = run.plan.mesh;
    Coverage::Kinds kinds;
    kinds["tensor"] = mesh.size(Axis::tensor) > 1;
    kinds["sequence parallel"] = run.plan.sequence_parallel;
    kinds["data"] = mesh.size(Axis::data) > 1;
    kinds["context"] = mesh.size(Axis::context) > 1;
    kinds["ZeRO-1"] = mesh.size(Axis::data) > 1 && run.plan.zero_stage == 1;
    const std::uint32_t zero = mesh.size(Axis::data) > 1 ? run.plan.zero_stage : 0;
    kinds["ZeRO-2"] = zero == 2;
    kinds["ZeRO-3"] = zero == 3 && run.plan.prefetch == 0 && run.plan.reshard_after_forward;
    kinds["ZeRO-3 with prefetch"] = zero == 3 && run.plan.prefetch == 1 && run.plan.reshard_after_forward;
    kinds["ZeRO-3, weights kept"] = zero == 3 && !run.plan.reshard_after_forward;
    kinds["ZeRO-3, two kinds of layers"] = zero == 3 && mixes_kinds(run.model);
    kinds["ZeRO-2 or 3, split backward"] = zero >= 2 && splits_backward(run.plan);
    kinds["ZeRO-2 or 3, table elsewhere"] = zero >= 2 && mesh.size(Axis::pipeline) > 1;
    kinds["offloaded states"] = run.plan.offload_states != 0U;
    kinds["offloaded states of modules"] = run.plan.offload_states == 8U;
    kinds["offloaded parameters"] = run.plan.offload_parameters != 0U;
    kinds["offloaded activations"] = run.plan.offload_activations != 0U;
    kinds["two pipes"] = stage_map(run.plan).two_way();
    kinds["clipping"] = run.workload.clip_norm.has_value();
    kinds["table elsewhere, tied"] = mesh.size(Axis::pipeline) > 1 && run.model.tied_embeddings;
    kinds["table elsewhere, not tied"] = mesh.size(Axis::pipeline) > 1 && !run.model.tied_embeddings;
    kinds["two modules"] = run.model.prediction_modules == 2;
    kinds["split backward"] = splits_backward(run.plan);
    kinds["all recomputed"] = run.plan.recompute == Recompute::full && !run.plan.recompute_layers;
    kinds["some recomputed"] = run.plan.recompute_layers.has_value();
    kinds["mixture"] = run.model.mixture.has_value();
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

}  // namespace orrery::test
