#include <catch2/catch.hpp>

#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/layer_kinds.hpp"

namespace orrery::test {
namespace {

/// Ways to cut a plan that the kinds of layers must bear.
Coverage::Kinds ways_of(const PlannedRun& run) {
  const Plan& p = run.plan;
  return {{"tensor", p.mesh.size(Axis::tensor) > 1},
          {"sequence parallel", p.sequence_parallel},
          {"context", p.mesh.size(Axis::context) > 1},
          {"stages", p.mesh.size(Axis::pipeline) > 1},
          {"ZeRO-2 or 3", p.mesh.size(Axis::data) > 1 && p.zero_stage > 1},
          {"recomputation", p.recompute == Recompute::full},
          {"split backward", splits_backward(p)},
          {"activations in host memory", p.offload_activations > 0},
          {"dropout", run.workload.hidden_dropout > 0}};
}

void check_kinds(std::span<const LayerKindCase> kinds, int least, std::uint64_t first_seed) {
  for (const LayerKindCase& kind : kinds) {
    Coverage coverage(least);
    int taken = 0;
    for (std::uint64_t seed = first_seed; seed < first_seed + 160; ++seed) {
      RandomRunLimits limits;
      limits.mixture = kind.mixture;
      if (kind.mixture) limits.expert = seed % 2 + 1;
      if (kind.exact) limits.precision = Precision::fp64;
      if (!kind.grid) limits.tensor = TensorAlgorithm::one_d;
      PlannedRun run = random_run(seed, limits);
      if (!kind.mixture) run.model.mixture.reset();
      kind.apply(run.model);
      Diagnostics diagnostics;
      check(run.plan, run.model, run.workload, nullptr, diagnostics);
      INFO(kind.name << ", " << describe(run) << "\n" << render(diagnostics));
      REQUIRE(diagnostics.empty());
      if (!coverage.takes(ways_of(run))) continue;
      ++taken;
      const NumericsResult result = check_run(run, seed, sweep_options(seed));
      CHECK(result.failures.empty());
    }
    CAPTURE(kind.name);
    CHECK(taken >= least);
  }
}

}  // namespace

// Loss, gradients and weights equal those of a single device under every way to cut each kind.
TEST_CASE("Random plans of every kind of layer compute what a single device computes", "[oracle][numerics]") {
  check_kinds(single_kinds(), 1, 1001);
}

TEST_CASE("Random plans of families of models compute what a single device computes", "[oracle][numerics]") {
  check_kinds(family_kinds(), 2, 2001);
}

}  // namespace orrery::test
