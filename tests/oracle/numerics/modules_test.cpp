#include <catch2/catch.hpp>
#include <string>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/layer_kinds.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

RandomRunLimits limits_of(std::uint64_t seed) {
  RandomRunLimits limits;
  limits.max_ranks = seed % 4 == 0 ? 8 : 4;
  limits.recompute = Recompute::selective;
  if (seed % 3 == 0) limits.expert = 1 + seed % 2;
  limits.architectures = seed % 5 == 2;
  return limits;
}

/// Some of the modules that the model has, beside a kernel of attention that goes with them. Returns false where check
/// refuses them.
bool recompute_modules(PlannedRun& run, std::uint64_t seed) {
  Plan& p = run.plan;
  p.recompute = Recompute::selective;
  const unsigned known = recompute_modules_of(run.model);
  unsigned set = static_cast<unsigned>(seed * 2654435761U >> 7U) & known;
  if (seed % 7 == 0) set = known;
  if (p.attention == AttentionKernel::flash || p.context == ContextAlgorithm::ring_self_attention) {
    set &= ~unsigned{set_of(RecomputeModule::core_attn)};
  }
  p.recompute_modules = static_cast<RecomputeModules>(set);
  Diagnostics found;
  check(run.plan, run.model, run.workload, nullptr, found);
  return found.empty();
}

}  // namespace

TEST_CASE("Plans that recompute modules compute what a single device computes", "[oracle][numerics][recompute]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    PlannedRun run = random_run(90000 + seed, limits_of(seed));
    if (!recompute_modules(run, seed)) continue;
    const Plan& p = run.plan;
    const bool tensor = p.mesh.size(Axis::tensor) > 1;
    Coverage::Kinds kinds;
    for (std::uint8_t n = 0; n < recompute_module_count; ++n) {
      const std::string name(recompute_module_names()[n]);
      const bool has = has_module(p.recompute_modules, static_cast<RecomputeModule>(n));
      kinds[name] = has;
      kinds[name + " alone"] = p.recompute_modules == set_of(static_cast<RecomputeModule>(n));
      kinds[name + ", tensor"] = has && tensor && !p.sequence_parallel;
      kinds[name + ", positions cut"] = has && tensor && p.sequence_parallel;
      kinds[name + ", split backward"] = has && splits_backward(p);
      kinds[name + ", ZeRO-3"] = has && p.zero_stage == 3 && p.mesh.size(Axis::data) > 1;
      kinds[name + ", some layers"] = has && p.recompute_layers.has_value();
      kinds[name + ", activations on the host"] = has && p.offload_activations.value_or(0) > 0;
      kinds[name + ", dropout"] = has && run.workload.hidden_dropout > 0;
    }
    kinds["a grid"] = p.tensor != TensorAlgorithm::one_d;
    kinds["context"] = p.mesh.size(Axis::context) > 1;
    kinds["stages"] = p.mesh.size(Axis::pipeline) > 1;
    kinds["all modules"] = p.recompute_modules == recompute_modules_of(run.model);
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

TEST_CASE("Layers of every kind recompute their modules", "[oracle][numerics][recompute]") {
  for (const LayerKindCase& kind : single_kinds()) {
    int taken = 0;
    for (std::uint64_t seed = 1; seed <= 60 && taken < 2; ++seed) {
      RandomRunLimits limits;
      limits.max_ranks = 4;
      limits.mixture = kind.mixture;
      if (kind.mixture) limits.expert = 2;
      if (kind.exact) limits.precision = Precision::fp64;
      limits.tensor = TensorAlgorithm::one_d;
      limits.recompute = Recompute::selective;
      PlannedRun run = random_run(95000 + seed, limits);
      if (!kind.mixture) run.model.mixture.reset();
      kind.apply(run.model);
      if (!recompute_modules(run, 7)) continue;  // all that there are
      CAPTURE(kind.name, seed);
      check_run(run, seed, sweep_options(seed));
      ++taken;
    }
    CAPTURE(kind.name);
    CHECK(taken == 2);
  }
}

}  // namespace orrery::test
