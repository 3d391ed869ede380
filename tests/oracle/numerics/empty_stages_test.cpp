#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/verify.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/support/tiny_run.hpp"

namespace orrery::test {
namespace {

RandomRunLimits limits_of(std::uint64_t seed) {
  RandomRunLimits limits;
  limits.architectures = seed % 9 == 0;
  limits.predictions = seed % 9 == 1;
  limits.chunks = seed % 9 == 2;
  if (seed % 7 == 0) limits.schedule = seed % 2 == 0 ? ScheduleName::chimera : ScheduleName::dualpipe;
  if (seed % 7 == 1) limits.schedule = ScheduleName::interleaved;
  return limits;
}

/// Takes the layers of the first, the last or a middle stage, or of the first and last, and gives them to another one.
/// False where there are too few stages.
bool empty_stages(PlannedRun& run, std::uint64_t turn) {
  Plan& p = run.plan;
  std::vector<std::uint32_t>& layers = *p.stage_layers;
  const std::size_t n = layers.size();
  if (p.mesh.size(Axis::pipeline) == 1) return false;
  std::vector<std::size_t> emptied;
  if (turn != 1) emptied.push_back(0);
  if (turn == 1 || turn == 2) emptied.push_back(n - 1);
  if (turn == 3) emptied = {n / 2};
  if (emptied.size() >= n || (turn == 3 && n < 3)) return false;
  const auto is_emptied = [&](std::size_t s) { return std::find(emptied.begin(), emptied.end(), s) != emptied.end(); };
  std::size_t to = 0;
  while (is_emptied(to)) ++to;
  for (const std::size_t s : emptied) layers[to] += std::exchange(layers[s], 0);
  if (p.recompute_layers) {
    for (const std::size_t s : emptied) (*p.recompute_layers)[s] = 0;
  }
  if (p.zero_stage == 3 && turn != 3) p.prefetch = 0;
  Diagnostics wrong;
  check(p, run.model, run.workload, nullptr, wrong);
  return wrong.empty();
}

}  // namespace

// The embedding and the head lie alone on their stages, and a stage without modules sends on what it receives.
TEST_CASE("Plans with stages without layers compute what a single device computes", "[oracle][numerics][stages]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 700; ++seed) {
    PlannedRun run = random_run(60000 + seed, limits_of(seed));
    const std::uint64_t turn = seed / 9 % 4;
    if (!empty_stages(run, turn)) continue;
    const Plan& p = run.plan;
    const Workload& w = run.workload;
    const bool several = p.mesh.size(Axis::data) > 1, first = turn != 1 && turn != 3, last = turn == 1 || turn == 2;
    Coverage::Kinds kinds;
    kinds["embedding alone"] = first;
    kinds["head alone"] = last;
    kinds["a stage with nothing"] = turn == 3;
    for (const bool zero : {false, true}) {
      const std::string how = zero ? ", ZeRO-1" : ", no ZeRO";
      kinds["first" + how] = first && several && p.zero_stage == (zero ? 1U : 0U);
      kinds["last" + how] = last && several && p.zero_stage == (zero ? 1U : 0U);
    }
    kinds["ZeRO-2"] = several && p.zero_stage == 2;
    kinds["ZeRO-3"] = several && p.zero_stage == 3 && p.reshard_after_forward;
    kinds["ZeRO-3, weights kept"] = several && p.zero_stage == 3 && !p.reshard_after_forward;
    kinds["schedule " + std::string(name_of(p.schedule))] = true;
    const bool on_v = stage_map(p).placement == StagePlacement::v;
    kinds["nothing on the way down a V"] = turn == 3 && on_v;
    kinds["nothing, lanes side by side"] = turn == 3 && sweep_options(seed).concurrent_lanes;
    kinds["tied"] = run.model.tied_embeddings && (first || last);
    kinds["untied"] = !run.model.tied_embeddings;
    kinds["prediction modules"] = run.model.prediction_modules > 0 && last;
    kinds["mixture"] = run.model.mixture.has_value();
    kinds["BERT"] = run.model.architecture == Architecture::bert;
    kinds["images"] = run.model.architecture == Architecture::vit;
    kinds["grid"] = p.tensor != TensorAlgorithm::one_d;
    kinds["tensor"] = p.mesh.size(Axis::tensor) > 1 && !p.sequence_parallel;
    kinds["sequence parallel"] = p.sequence_parallel;
    kinds["dropout"] = w.hidden_dropout > 0.0;
    kinds["recompute full"] = p.recompute == Recompute::full;
    kinds["loss in chunks"] = p.loss_chunks > 1 && last;
    kinds["offloaded states"] = p.offload_states != 0U;
    kinds["offloaded parameters"] = p.offload_parameters != 0U;
    kinds["offloaded activations"] = p.offload_activations != 0U;
    if (!coverage.takes(kinds)) continue;
    for (const Violation& v : verify(lower(run.model, run.workload, run.plan))) {
      CAPTURE(seed, describe(run), v.code, v.message);
      CHECK(v.code.empty());
    }
    check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

// The first rank sends twice to the same one: once the sum of the tensor ranks' embeddings, once what it has received.
// The two wait for other lanes.
TEST_CASE("A rank with the embedding and an empty chunk sends both in time", "[oracle][numerics][stages]") {
  for (const bool sequence_parallel : {false, true}) {
    PlannedRun run = tiny_run(Mesh{{{Axis::pipeline, 2}, {Axis::tensor, 2}}}, 4);
    run.model = tiny_gpt({.layers = 6});
    run.workload.precision = Precision::fp64;
    run.plan.schedule = ScheduleName::interleaved;
    run.plan.chunks = 2;
    run.plan.stage_layers = std::vector<std::uint32_t>{0, 3, 0, 3};
    run.plan.sequence_parallel = sequence_parallel;
    run.plan.gradient_bucket = Bytes::of(1 << 20);
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    CAPTURE(describe(run), render(wrong));
    REQUIRE(wrong.empty());
    for (const Violation& v : verify(lower(run.model, run.workload, run.plan))) {
      CAPTURE(v.code, v.message);
      CHECK(v.code.empty());
    }
    check_run(run, 2, sweep_options(2));  // lanes side by side
  }
}

}  // namespace orrery::test
