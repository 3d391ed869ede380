#include <catch2/catch.hpp>

#include "jobs/least_cost_choice.hpp"
#include "jobs/sia_policy.hpp"
#include "tests/unit/jobs/job_examples.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Least cost by trying every combination.
std::int64_t tried(const std::vector<std::vector<CostedChoice>>& lists, std::size_t from, std::int64_t room) {
  if (room < 0) return 1'000'000'000;
  if (from == lists.size()) return 0;
  std::int64_t best = 1'000'000'000;
  for (const CostedChoice& c : lists[from]) best = std::min(best, c.cost + tried(lists, from + 1, room - c.takes));
  return best;
}

}  // namespace

TEST_CASE("the cheapest choice is that of all combinations", "[property][jobs]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto below = [&](std::uint64_t stream, std::uint64_t i, std::uint64_t most) {
      return static_cast<std::uint32_t>(random_bits(seed, stream, i) % most);
    };
    std::vector<std::vector<CostedChoice>> lists(1 + below(1, 0, 6));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      lists[i].push_back({0, below(2, i, 120)});
      for (std::uint32_t c = 0; c < below(3, i, 5); ++c)
        lists[i].push_back({below(4, 8 * i + c, 9), below(5, 8 * i + c, 150)});
    }
    const std::uint32_t room = below(6, 0, 20);
    const std::vector<std::uint32_t> chosen = least_cost_choice(lists, room);
    std::int64_t cost = 0;
    std::uint32_t takes = 0;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      cost += lists[i][chosen[i]].cost;
      takes += lists[i][chosen[i]].takes;
    }
    CAPTURE(seed);
    REQUIRE(takes <= room);
    REQUIRE(cost == tried(lists, 0, room));
  }
  CHECK(least_cost_choice({}, 3).empty());
  CHECK(least_cost_choice({{{1, 5}, {0, 5}}}, 3) == std::vector<std::uint32_t>{0});  // the earlier of equal ones
}

TEST_CASE("costs and restart factors of Sia", "[unit][jobs]") {
  CHECK(sia_cost(1.0, 1.0) == 100);
  CHECK(sia_cost(4.0, 1.0) == 50);
  CHECK(sia_cost(3.0, 1.0) == 58);  // 1 / sqrt(3) = 0.577
  CHECK(sia_cost(4.0, 0.25) == 100);
  CHECK(sia_cost(4.0, 0.0) == 300'000);
  CHECK(sia_restart_factor(20, 0, 30) == 1.0);
  CHECK(sia_restart_factor(90, 1, 30) == 0.5);  // (90 - 30) / (90 + 30)
  CHECK(sia_restart_factor(90, 4, 30) == 0.0);
}

TEST_CASE("sia lets a job grow from minute to minute, shrinks it for others, and lets it grow again", "[unit][jobs]") {
  // 4 GPUs; speeds of a 1, 1.8, 3 on 1, 2, 4, and 240 s of work on 4. It has one GPU for a minute and two for the next,
  // which do 20 and 36 s of the work, then four. b, c and d come at 130 s with a minute each on one GPU. At 180 s the
  // costs are 58 + 3 x 110 = 388 if a keeps four, 75 + 2 x 100 + 110 = 385 if it has two, 100 + 3 x 100 = 400 if one.
  // At 240 s b and c are done: 58 + 110 beats 75 + 100, so a has all again until it ends, and d waits for the minute.
  JobWorkload w = workload_of({{0, 240, 4}, {130, 60, 1}, {130, 60, 1}, {130, 60, 1}});
  w.jobs[0].speeds = {{1, 3333}, {2, 6000}, {4, 10000}};
  const JobHistory h = played(w, "sia", {4});
  CHECK(ends_of(h) == std::vector<double>{328.002, 240, 240, 420});
  CHECK(h.jobs[0].stops == 4);
  CHECK(seconds_of(h.busy) == Approx(60 + 120 + 240 + 240 + 352.008 + 60).epsilon(1e-9));
}
