#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/random_plan.hpp"

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

// Experts on one rank, or shared out alone and beside every other axis.
TEST_CASE("Mixtures on any plan equal a single device", "[oracle][numerics][mixture]") {
  const std::uint32_t expert = GENERATE(1U, 2U, 4U, 8U);
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const PlannedRun run = random_run(9000 + 100 * expert + seed, limits_of(expert, seed % 3 == 0 ? 1 : 16 / expert));
    check_run(run, seed, sweep_options(seed));
    seen["tensor"] += run.plan.mesh.size(Axis::tensor) > 1 ? 1 : 0;
    seen["data"] += run.plan.mesh.size(Axis::data) > 1 ? 1 : 0;
    seen["capacity"] += run.workload.routing.capacity ? 1 : 0;
    seen["shared"] += run.model.mixture->shared_ffn > 0 ? 1 : 0;
    seen["auxiliary"] += run.workload.routing.auxiliary_loss > 0 ? 1 : 0;
  }
  for (const char* kind : {"capacity", "shared", "auxiliary"}) {
    CAPTURE(expert, kind);
    CHECK(seen[kind] > 0);
  }
}

}  // namespace orrery::test
