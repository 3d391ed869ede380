#include <catch2/catch.hpp>
#include <numeric>
#include <string>

#include "core/program/lower/lower.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {
namespace {

RandomRunLimits limits_of(std::uint32_t expert, std::uint32_t others) {
  RandomRunLimits limits;
  limits.max_ranks = others;
  limits.expert = expert;
  limits.tensor = TensorAlgorithm::one_d;
  return limits;
}

}  // namespace

// Experts are on one rank, or sharded alone and beside every other axis.
TEST_CASE("Mixtures on any plan equal a single device", "[oracle][numerics][mixture]") {
  Coverage coverage(2);
  for (const std::uint32_t expert : {1U, 2U, 4U, 8U}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const PlannedRun run = random_run(9000 + 100 * expert + seed, limits_of(expert, seed % 3 == 0 ? 1 : 16 / expert));
      const Routing& routing = run.workload.routing;
      Coverage::Kinds kinds;
      kinds["tensor"] = run.plan.mesh.size(Axis::tensor) > 1;
      kinds["data"] = run.plan.mesh.size(Axis::data) > 1;
      kinds["stages"] = run.plan.mesh.size(Axis::pipeline) > 1;
      kinds["capacity"] = routing.capacity.has_value();
      kinds["recorded"] = routing.kind == Routing::Kind::recorded;
      kinds["shared"] = run.model.mixture->shared_ffn > 0;
      kinds["auxiliary"] = routing.auxiliary_loss > 0;
      kinds["learned"] = routing.kind == Routing::Kind::learned;
      kinds["learned, cut by positions"] = routing.kind == Routing::Kind::learned && run.plan.sequence_parallel;
      kinds["groups, stated"] = run.model.mixture->groups > 1 && routing.kind != Routing::Kind::learned;
      kinds["groups, learned"] = run.model.mixture->groups > 1 && routing.kind == Routing::Kind::learned;
      kinds["every other"] = run.model.mixture->every > 1 && mixture_count(run.model) > 1;
      kinds["dense at the end"] = !run.model.mixture->dense.empty();
      kinds["dense below"] = run.model.mixture->first_dense > 0;
      const auto& counts = run.plan.recompute_layers;
      const bool some = counts && run.plan.recompute != Recompute::none;
      kinds["dense below, some recomputed"] = run.model.mixture->first_dense > 0 && some;
      const bool two = mixes_kinds(run.model);
      const bool gathers = run.plan.zero_stage == 3 && run.plan.mesh.size(Axis::data) > 1;
      kinds["two kinds, ZeRO-3 with prefetch"] = two && gathers && run.plan.prefetch > 0;
      kinds["two kinds, activations offloaded"] = two && run.plan.offload_activations != 0U;
      kinds["two kinds, parameters offloaded"] = two && run.plan.offload_parameters != 0U;
      kinds["dense below, ZeRO-3"] = run.model.mixture->first_dense > 0 && run.plan.zero_stage == 3;
      kinds[std::to_string(expert) + " ranks with experts"] = true;
      if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
    }
  }
  // These are rarely drawn, so a few are drawn of these alone.
  int cut = 0;
  for (std::uint64_t seed = 100; seed < 400 && cut < 3; ++seed) {
    const PlannedRun run = random_run(9000 + seed, limits_of(2, 8));
    if (run.workload.routing.kind != Routing::Kind::learned || !run.plan.sequence_parallel) continue;
    if (coverage.takes({{"learned, cut by positions", true}})) check_run(run, seed, sweep_options(seed));
    ++cut;
  }
  coverage.check();
}

// Experts on grids have tokens with all features, which the stream of a grid has not.
TEST_CASE("Mixtures on grids equal a single device", "[oracle][numerics][mixture]") {
  Coverage coverage(1);
  for (std::uint64_t seed = 9601; seed <= 9660; ++seed) {
    RandomRunLimits limits = limits_of(seed % 2 == 0 ? 2 : 1, 16);
    limits.tensor = seed % 3 == 0   ? TensorAlgorithm::two_d
                    : seed % 3 == 1 ? TensorAlgorithm::two_half_d
                                    : TensorAlgorithm::three_d;
    limits.architectures = seed % 4 == 0;  // of those latent attention alone has experts
    const PlannedRun run = random_run(seed, limits);
    if (!run.model.mixture) continue;
    const Plan& p = run.plan;
    Coverage::Kinds kinds{{p.tensor == TensorAlgorithm::three_d ? "3d" : "2d and 2.5d", true}};
    kinds["expert axis"] = p.mesh.size(Axis::expert) > 1;
    kinds["shared"] = run.model.mixture->shared_ffn > 0;
    kinds["learned"] = run.workload.routing.kind == Routing::Kind::learned;
    kinds["dense below"] = run.model.mixture->first_dense > 0;
    kinds["zero 2 and 3"] = p.zero_stage >= 2 && p.mesh.size(Axis::data) > 1;
    kinds["context"] = p.mesh.size(Axis::context) > 1;
    kinds["stages"] = p.mesh.size(Axis::pipeline) > 1;
    kinds["latent attention"] = run.model.latent.has_value();
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

// 3 steps of 8 sequences of 12 tokens with 2 choices each in 2 layers.
TEST_CASE("Learned routing chooses the same experts however the plan cuts", "[oracle][numerics][mixture]") {
  const bool drops = GENERATE(false, true);
  const auto counts = [&](std::vector<MeshAxis> axes, bool sequence_parallel) {
    PlannedRun run;
    run.model = tiny_llama();
    Mixture& m = run.model.mixture.emplace();
    m.experts = 8;
    m.per_token = 2;
    m.ffn = 12;
    Workload& w = run.workload;
    w.global_batch = 8;
    w.sequence_length = 12;
    w.precision = Precision::fp64;
    w.routing.kind = Routing::Kind::learned;
    w.routing.auxiliary_loss = 1.0;
    w.routing.group = 6;
    if (drops) w.routing.capacity = 1.0;
    run.plan.mesh = Mesh{std::move(axes)};
    run.plan.stage_layers = {2};
    run.plan.sequence_parallel = sequence_parallel;
    run.plan.recompute = sequence_parallel ? Recompute::full : Recompute::none;
    run.plan.gradient_bucket = Bytes::of(0);
    run.plan.overlap_gradients = true;
    run.plan.attention = AttentionKernel::flash;
    RunOptions options;
    options.steps = 3;
    const Program program = lower(run.model, w, run.plan);
    return execute(program, run.model, w, run.plan, *data_of(run.model, w), options).routing;
  };
  const RoutingCounts alone = counts({}, false);
  REQUIRE(alone.size() == 2);
  for (const auto& [layer, of] : alone) {
    CHECK(std::accumulate(of.chosen.begin(), of.chosen.end(), std::uint64_t{0}) == 3 * 8 * 12 * 2);
    CHECK(of.room == 3 * 8 * 12 * 2);  // one rank has them all, whoever is chosen
    CHECK((of.kept < of.room) == drops);
  }
  for (const bool cut : {false, true}) {
    const RoutingCounts shared = counts({{Axis::expert, 4}, {Axis::tensor, 2}}, cut);
    REQUIRE(shared.size() == 2);
    for (const auto& [layer, of] : shared) {
      CHECK(of.chosen == alone.at(layer).chosen);
      CHECK(of.kept == alone.at(layer).kept);
      // Each of 4 ranks may get all of a group's 12 choices, or with capacity what its 2 experts keep: 2 x ceil(12 /
      // 8).
      CHECK(of.room == 3 * 8 * 2 * 4 * (drops ? 4 : 12));
    }
  }
}

// The models are like DeepSeek's: latent attention, and mixtures above dense layers.
TEST_CASE("Mixtures with latent attention on any plan equal a single device", "[oracle][numerics][mixture]") {
  int checked = 0, dense = 0, shared = 0;
  for (std::uint64_t seed = 1; checked < (long_tests() ? 16 : 8); ++seed) {
    RandomRunLimits limits = limits_of(seed % 2 == 0 ? 2 : 4, 4);
    limits.architectures = true;
    const PlannedRun run = random_run(9900 + seed, limits);
    if (!run.model.latent) continue;
    check_run(run, seed, sweep_options(seed));
    ++checked;
    dense += run.model.mixture->first_dense > 0 ? 1 : 0;
    shared += run.model.mixture->shared_ffn > 0 ? 1 : 0;
  }
  CHECK(dense > 1);
  CHECK(shared > 1);
}

}  // namespace orrery::test
