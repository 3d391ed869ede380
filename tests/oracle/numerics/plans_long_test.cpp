#include <cstdio>
#include <map>

#include "tests/oracle/numerics/check_run.hpp"

namespace orrery::test {
namespace {

/// The figures of a sweep, by precision.
struct Spread {
  std::uint64_t runs = 0;
  double of_bound = 0.0, of_ceiling = 0.0;
};

/// Axes that cut something.
std::size_t cut_axes(const Plan& plan) {
  std::size_t n = 0;
  for (const MeshAxis& a : plan.mesh.axes) n += a.size > 1 ? 1U : 0U;
  return n;
}

/// Checks the runs of the seeds. As it goes, it prints how many there were of each number of cut axes, and how much
/// room the bounds leave.
void sweep(const char* what, std::uint64_t first, std::uint64_t count, const RandomRunLimits& limits) {
  std::map<DType, Spread> of_dtype;
  std::map<std::size_t, std::uint64_t> of_axes;
  std::uint64_t ranks = 0, drowned = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const PlannedRun run = random_run(seed, limits);
    NumericsOptions options = sweep_options(seed);
    // A thread for each lane of 64 ranks is too many for a small machine.
    if (run.plan.mesh.size() > 16) options.concurrent_lanes = false;
    const NumericsResult result = check_run(run, seed, options);
    Spread& s = of_dtype[weight_dtype(run.workload)];
    ++s.runs;
    drowned += result.drowned ? 1 : 0;
    if (result.drowned) continue;
    s.of_bound = std::max(s.of_bound, result.gradient_share);
    s.of_ceiling = std::max(s.of_ceiling, result.ceiling_share);
    ++of_axes[cut_axes(run.plan)];
    ranks = std::max(ranks, run.plan.mesh.size());
    if ((seed - first + 1) % 500 != 0 && seed + 1 != first + count) continue;
    std::printf("%s: %llu runs on up to %llu ranks;", what, static_cast<unsigned long long>(seed - first + 1),
                static_cast<unsigned long long>(ranks));
    for (const auto& [axes, runs] : of_axes) {
      std::printf(" %zu axes %llu", axes, static_cast<unsigned long long>(runs));
    }
    std::printf("\n");
    for (const auto& [dtype, spread] : of_dtype) {
      std::printf("  %s: %llu runs, the largest gradient error is %.2g of its bound, %.2g of the ceiling\n",
                  std::string(name_of(dtype)).c_str(), static_cast<unsigned long long>(spread.runs), spread.of_bound,
                  spread.of_ceiling);
    }
    std::fflush(stdout);
  }
  CHECK(of_dtype.size() == 4);
  std::printf("%s: %llu runs held to fp32\n", what, static_cast<unsigned long long>(drowned));
  CHECK(drowned * 200 <= count);
  for (const auto& [dtype, spread] : of_dtype) CHECK(spread.of_bound <= 1.0);
}

}  // namespace

TEST_CASE("Thousands of random plans compute what a single device computes", "[oracle][numerics][long]") {
  sweep("plans", 10001, 6000, {});
}

TEST_CASE("Thousands of plans over five axes at once compute what a single device computes",
          "[oracle][numerics][long][axes]") {
  RandomRunLimits limits;
  limits.max_ranks = 64;
  limits.five_axes = true;
  sweep("five axes", 20001, 2000, limits);
}

TEST_CASE("Hundreds of plans of other architectures compute what a single device computes",
          "[oracle][numerics][long][architectures]") {
  RandomRunLimits limits;
  limits.architectures = true;
  sweep("architectures", 30001, 1000, limits);
}

}  // namespace orrery::test
