#include <cstdio>
#include <map>

#include "tests/oracle/numerics/check_run.hpp"

namespace orrery::test {

// The spread of the errors is printed, to see how much room the bounds leave.
TEST_CASE("Thousands of random plans compute what a single device computes", "[oracle][numerics][long]") {
  std::map<DType, double> worst;
  std::map<DType, double> worst_of_ceiling;
  for (std::uint64_t seed = 10001; seed <= 16000; ++seed) {
    const PlannedRun run = random_run(seed);
    const NumericsResult result = check_run(run, seed, sweep_options(seed));
    double& share = worst[weight_dtype(run.workload)];
    share = std::max(share, result.gradient_share);
    double& of_ceiling = worst_of_ceiling[weight_dtype(run.workload)];
    of_ceiling = std::max(of_ceiling, result.ceiling_share);
  }
  CHECK(worst.size() == 4);
  for (const auto& [dtype, share] : worst) {
    CHECK(share <= 1.0);
    std::printf("%s: the largest gradient error is %.2g of its bound, %.2g of the ceiling\n",
                std::string(name_of(dtype)).c_str(), share, worst_of_ceiling[dtype]);
  }
}

}  // namespace orrery::test
