#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "planner/describe.hpp"
#include "planner/search.hpp"
#include "tests/oracle/planner/best_of_all.hpp"
#include "tests/oracle/planner/small_space.hpp"
#include "tests/support/coverage.hpp"

// Compares the search, which looks at some hundred plans, with all plans of spaces that are small enough to look at
// every one.

using namespace orrery;

namespace {

SearchResult searched(const test::SmallSpace& space) {
  SearchOptions options;
  options.limits = space.limits;
  options.top = 1;
  options.simulate = false;
  options.threads = 1;
  return search(space.run.model, space.run.workload, *space.run.cluster, space.calibration, options);
}

/// The share by which the found plan is slower than the best of all; 1 where nothing was found.
double gap(const test::BestOfAll& best, const SearchResult& found) {
  if (!best.plan) return 0.0;
  if (found.plans.empty()) return 1.0;
  return found.plans.front().report.step_time.base() / (static_cast<double>(best.step) * 1e-12) - 1.0;
}

}  // namespace

// The search promises no best plan. It should miss one space in a hundred. With devices that hold hardly any of the
// plans it misses one in thirty today (docs/decisions/0018), so one in twenty would be a fault.
TEST_CASE("what the search finds is as fast as the best of all plans in nearly all small spaces", "[oracle][search]") {
  const std::uint64_t spaces = test::long_tests() ? 300 : 8;
  constexpr double noticed = 0.002;
  std::uint64_t missed = 0, with_plans = 0;
  for (std::uint64_t seed = 1; seed <= spaces; ++seed) {
    const test::SmallSpace space = test::draw_space(seed);
    const test::BestOfAll best = test::best_of_all(space);
    const SearchResult found = searched(space);
    with_plans += best.plan ? 1 : 0;
    const double slower = gap(best, found);
    if (slower > noticed) {
      ++missed;
      WARN(fmt::format("seed {}: {:.3f} % slower\n{}\nbest  {}\nfound {}\n{}", seed, 100.0 * slower, space.text,
                       describe(*best.plan), found.plans.empty() ? "none" : describe(found.plans.front().plan),
                       found.claim));
    }
  }
  CHECK(20 * missed <= spaces);
  CHECK(2 * with_plans > spaces);
}
