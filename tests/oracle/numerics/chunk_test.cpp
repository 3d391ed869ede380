#include <catch2/catch.hpp>

#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {

// Gradients lie in the memory of their weights. So whatever the order of a layer's backward pass, no weight may be gone
// before it is read.
TEST_CASE("Plans with chunked parameters compute what a single device computes", "[oracle][numerics]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 220; ++seed) {
    RandomRunLimits limits;
    limits.chunks = true;
    limits.mixture = seed > 160;
    if (limits.mixture) limits.expert = 1 + seed % 2;
    limits.zero_stage = 3;
    limits.architectures = seed > 100 && seed <= 160;
    const PlannedRun run = random_run(seed, limits);
    if (run.plan.parameter_chunk == Bytes()) continue;
    const Coverage::Kinds kinds{{"prefetch", run.plan.prefetch > 0},
                                {"recomputation", run.plan.recompute == Recompute::full},
                                {"stages", run.plan.mesh.size(Axis::pipeline) > 1},
                                {"mixture", run.model.mixture.has_value()},
                                {"another architecture", limits.architectures},
                                {"tensor", run.plan.mesh.size(Axis::tensor) > 1},
                                {"grid", run.plan.tensor != TensorAlgorithm::one_d}};
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

}  // namespace orrery::test
