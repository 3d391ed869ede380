#include <catch2/catch.hpp>
#include <string>

#include "core/plan/schedule_rules.hpp"
#include "core/program/verify.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {

// BERT, vision transformers and latent attention, under every way to cut them: loss, gradients and weights equal those
// of a single device.
TEST_CASE("Random plans of other architectures compute what a single device computes", "[oracle][numerics]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 900; ++seed) {
    RandomRunLimits limits;
    limits.architectures = true;
    const PlannedRun run = random_run(seed, limits);
    const Plan& p = run.plan;
    const ModelSpec& m = run.model;
    const std::string& kind = m.name;
    Coverage::Kinds kinds{{kind, true}};
    kinds[kind + ", tensor"] = p.mesh.size(Axis::tensor) > 1;
    kinds[kind + ", context"] = p.mesh.size(Axis::context) > 1;
    kinds[kind + ", sequence parallel"] = p.sequence_parallel;
    kinds[kind + ", stages"] = p.mesh.size(Axis::pipeline) > 1;
    kinds[kind + ", zero 2 and 3"] = p.mesh.size(Axis::data) > 1 && p.zero_stage > 1;
    kinds[kind + ", flash"] = p.attention == AttentionKernel::flash;
    kinds[kind + ", recomputation"] = p.recompute == Recompute::full;
    kinds[kind + ", dropout"] = run.workload.hidden_dropout > 0;
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check(4);  // the four vision transformers have no context axis
}

// Each of a grid's ranks has some features of the stream. Norms, tables, the head's further matrix and products of a
// few rows only are cut otherwise than other products.
TEST_CASE("Random plans of other architectures on grids compute what a single device computes", "[oracle][numerics]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 901; seed <= 1200; ++seed) {
    RandomRunLimits limits;
    limits.architectures = true;
    limits.tensor = seed % 3 == 0   ? TensorAlgorithm::two_d
                    : seed % 3 == 1 ? TensorAlgorithm::two_half_d
                                    : TensorAlgorithm::three_d;
    limits.cut_positions = seed % 2 == 0;
    const PlannedRun run = random_run(seed, limits);
    const Plan& p = run.plan;
    const std::string& kind = run.model.name;
    Coverage::Kinds kinds{{kind + (p.tensor == TensorAlgorithm::three_d ? ", 3d" : ", 2d and 2.5d"), true}};
    kinds[kind + ", stages"] = p.mesh.size(Axis::pipeline) > 1;
    kinds[kind + ", zero 2 and 3"] = p.mesh.size(Axis::data) > 1 && p.zero_stage > 1;
    kinds[kind + ", context"] = p.mesh.size(Axis::context) > 1;
    kinds[kind + ", recomputation"] = p.recompute == Recompute::full;
    kinds[kind + ", split backward"] = splits_backward(p);
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check(4);  // nor have they one on a grid
}

}  // namespace orrery::test
