#pragma once

#include <catch2/catch.hpp>

#include "tests/oracle/numerics/check_numerics.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {

/// Options for a sweep over seeds. Every fourth run trains three steps, and every fifth starts as the model says. In
/// every third a share of the targets does not count, and every second has its lanes side by side.
inline NumericsOptions sweep_options(std::uint64_t seed) {
  NumericsOptions options;
  options.steps = seed % 4 == 0 ? 3 : 1;
  options.rough = seed % 5 != 0;
  options.concurrent_lanes = seed % 2 == 0;
  options.ignored = seed % 3 == 0 ? 0.3 : 0.0;
  return options;
}

/// Checks the run and shows seed and plan with every broken law.
inline NumericsResult check_run(const PlannedRun& run, std::uint64_t seed, const NumericsOptions& options) {
  NumericsResult result = check_numerics(run, options);
  CAPTURE(seed, describe(run));
  for (const std::string& failure : result.failures) {
    CAPTURE(failure);
    CHECK(failure.empty());
  }
  return result;
}

}  // namespace orrery::test
