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
  std::map<std::string, int> seen;
  for (const std::uint32_t expert : {1U, 2U, 4U, 8U}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const PlannedRun run = random_run(9000 + 100 * expert + seed, limits_of(expert, seed % 3 == 0 ? 1 : 16 / expert));
      check_run(run, seed, sweep_options(seed));
      const Routing& routing = run.workload.routing;
      seen["tensor"] += run.plan.mesh.size(Axis::tensor) > 1 ? 1 : 0;
      seen["data"] += run.plan.mesh.size(Axis::data) > 1 ? 1 : 0;
      seen["stages"] += run.plan.mesh.size(Axis::pipeline) > 1 ? 1 : 0;
      seen["capacity"] += routing.capacity ? 1 : 0;
      seen["recorded"] += routing.kind == Routing::Kind::recorded ? 1 : 0;
      seen["shared"] += run.model.mixture->shared_ffn > 0 ? 1 : 0;
      seen["auxiliary"] += routing.auxiliary_loss > 0 ? 1 : 0;
    }
  }
  for (const auto& [kind, count] : seen) {
    CAPTURE(kind);
    CHECK(count > 0);
  }
}

}  // namespace orrery::test
