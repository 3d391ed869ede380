#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "core/plan/schedule_rules.hpp"
#include "core/program/verify.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {

// BERT, vision transformers and latent attention, under every way to cut them:
// loss, gradients and weights equal those of a single device.
TEST_CASE("Random plans of other architectures compute what a single device computes", "[oracle][numerics]") {
  std::map<std::string, int> covered;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    RandomRunLimits limits;
    limits.architectures = true;
    const PlannedRun run = random_run(seed, limits);
    const Plan& p = run.plan;
    const ModelSpec& m = run.model;
    const std::string& kind = m.name;
    ++covered[kind];
    if (p.mesh.size(Axis::tensor) > 1) ++covered[kind + ", tensor"];
    if (p.mesh.size(Axis::context) > 1) ++covered[kind + ", context"];
    if (p.sequence_parallel) ++covered[kind + ", sequence parallel"];
    if (p.mesh.size(Axis::pipeline) > 1) ++covered[kind + ", stages"];
    if (p.mesh.size(Axis::data) > 1 && p.zero_stage > 1) ++covered[kind + ", zero 2 and 3"];
    if (p.attention == AttentionKernel::flash) ++covered[kind + ", flash"];
    if (p.recompute == Recompute::full) ++covered[kind + ", recomputation"];
    if (run.workload.hidden_dropout > 0) ++covered[kind + ", dropout"];
    check_run(run, seed, sweep_options(seed));
  }
  for (const auto& [kind, count] : covered) {
    CAPTURE(kind, count);
    CHECK(count >= 3);
  }
  CHECK(covered.size() == 26);  // a vision transformer has no context axis
}

// Of a grid's ranks each has some features of the stream: norms, tables, the head's further matrix and what asks for a
// few rows alone are cut otherwise than products.
TEST_CASE("Random plans of other architectures on grids compute what a single device computes", "[oracle][numerics]") {
  std::map<std::string, int> covered;
  for (std::uint64_t seed = 201; seed <= 320; ++seed) {
    RandomRunLimits limits;
    limits.architectures = true;
    limits.tensor = seed % 3 == 0   ? TensorAlgorithm::two_d
                    : seed % 3 == 1 ? TensorAlgorithm::two_half_d
                                    : TensorAlgorithm::three_d;
    limits.cut_positions = seed % 2 == 0;
    const PlannedRun run = random_run(seed, limits);
    const Plan& p = run.plan;
    const std::string& kind = run.model.name;
    ++covered[kind + (p.tensor == TensorAlgorithm::three_d ? ", 3d" : ", 2d and 2.5d")];
    if (p.mesh.size(Axis::pipeline) > 1) ++covered[kind + ", stages"];
    if (p.mesh.size(Axis::data) > 1 && p.zero_stage > 1) ++covered[kind + ", zero 2 and 3"];
    if (p.mesh.size(Axis::context) > 1) ++covered[kind + ", context"];
    if (p.recompute == Recompute::full) ++covered[kind + ", recomputation"];
    if (splits_backward(p)) ++covered[kind + ", split backward"];
    check_run(run, seed, sweep_options(seed));
  }
  for (const auto& [kind, count] : covered) {
    CAPTURE(kind, count);
    CHECK(count >= 3);
  }
  CHECK(covered.size() == 19);
}

}  // namespace orrery::test
