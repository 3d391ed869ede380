#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {

// Gradients lie in the memory of the weights that they are of: whatever the order of a layer's backward pass, no weight
// may be gone before it is read.
TEST_CASE("Plans with chunked parameters compute what a single device computes", "[oracle][numerics]") {
  int runs = 0, ahead = 0, recomputed = 0, staged = 0, several = 0, grids = 0, mixtures = 0;
  for (std::uint64_t seed = 1; seed <= 220; ++seed) {
    RandomRunLimits limits;
    limits.chunks = true;
    limits.mixture = seed > 160;
    if (limits.mixture) limits.expert = 1 + seed % 2;
    limits.zero_stage = 3;
    limits.architectures = seed > 100 && seed <= 160;
    const PlannedRun run = random_run(seed, limits);
    if (run.plan.parameter_chunk == Bytes()) continue;
    check_run(run, seed, sweep_options(seed));
    ++runs;
    ahead += run.plan.prefetch > 0 ? 1 : 0;
    recomputed += run.plan.recompute == Recompute::full ? 1 : 0;
    staged += run.plan.mesh.size(Axis::pipeline) > 1 ? 1 : 0;
    mixtures += run.model.mixture ? 1 : 0;
    several += run.plan.mesh.size(Axis::tensor) > 1 ? 1 : 0;
    grids += run.plan.tensor != TensorAlgorithm::one_d ? 1 : 0;
  }
  CAPTURE(runs, ahead, recomputed, staged, several, grids, mixtures);
  CHECK(runs >= 40);
  CHECK(std::min({ahead, recomputed, staged, several, grids, mixtures}) >= 5);
}

}  // namespace orrery::test
