#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <map>

#include "tests/support/net/traffic.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr double rounding = 0.51e-12;  // every end is rounded to a whole picosecond

/// Steps of a ring last as long as its chunk takes at `rate` after the latency.
void check_steps(const Times& times, double latency, double chunk, double rate) {
  for (const auto& row : times) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      const double steps = static_cast<double>(k + 1);
      // The margin is 1 ps per step, and the precision of a double of that size.
      REQUIRE(std::abs(row[k] - steps * (latency + chunk / rate)) <= steps * rounding + 1e-15 * row[k]);
    }
  }
}

FlowNetwork network(std::vector<double> gigabytes_per_second) {
  const auto links = static_cast<std::uint32_t>(gigabytes_per_second.size());
  return {links, [=](LinkId l) { return gigabytes_per_second[index(l)] * gigabyte_per_second; }};
}

std::map<std::uint32_t, Picoseconds> ends(FlowNetwork& n) {
  std::map<std::uint32_t, Picoseconds> out;
  std::vector<std::uint32_t> ended;
  while (!n.idle()) {
    const Picoseconds now = n.next_event();
    ended.clear();
    n.advance(ended);
    for (const std::uint32_t number : ended) out[number] = now;
  }
  return out;
}

constexpr LinkId a{0}, b{1}, c{2};

}  // namespace

// 1 GB/s is one byte per nanosecond.
TEST_CASE("a flow alone takes its latency and its bytes over the slowest link", "[unit][net]") {
  FlowNetwork n = network({1, 2, 4});
  n.start(0, std::array{a, b, c}, 500, 1000 * byte, 7);
  n.start(0, std::array<LinkId, 0>{}, 300, 1000 * byte, 8);
  n.start(0, std::array{c}, 250, 0 * byte, 9);
  CHECK(ends(n) == std::map<std::uint32_t, Picoseconds>{{7, 1'000'500}, {8, 300}, {9, 250}});
  CHECK(n.carried(b).base() == 1000);
}

TEST_CASE("what one flow cannot use goes to the others", "[unit][net]") {
  FlowNetwork n = network({1, 4});
  // Flow 1 is held to 1 by link a; on link b the other two share the remaining 3.
  n.start(0, std::array{a, b}, 0, 10'000 * byte, 1);
  n.start(0, std::array{b}, 0, 10'000 * byte, 2);
  n.start(0, std::array{b}, 0, 10'000 * byte, 3);
  std::vector<std::uint32_t> none;
  REQUIRE(n.next_event() == 0);
  n.advance(none);
  CHECK(none.empty());
  CHECK(n.rate(1).in(gigabyte_per_second) == Approx(1));
  CHECK(n.rate(2).in(gigabyte_per_second) == Approx(1.5));
  CHECK(n.rate(3).in(gigabyte_per_second) == Approx(1.5));
}

TEST_CASE("a flow that begins later slows the others from then on", "[unit][net]") {
  FlowNetwork n = network({1});
  n.start(0, std::array{a}, 0, 1000 * byte, 1);
  n.start(0, std::array{a}, 400'000, 1000 * byte, 2);
  // The 400 bytes move alone, then 600 at half the rate until 1.6 us; the other then has 400 left.
  CHECK(ends(n) == std::map<std::uint32_t, Picoseconds>{{1, 1'600'000}, {2, 2'000'000}});
}

TEST_CASE("flows that end together come in the order of their starts", "[unit][net]") {
  FlowNetwork n = network({1, 1, 1});
  for (const std::uint32_t number : {5U, 3U, 9U, 1U}) n.start(0, std::array{a}, 10, 100 * byte, number);
  n.start(0, std::array{b}, 10, 400 * byte, 4);
  std::vector<std::uint32_t> ended;
  while (!n.idle()) n.advance(ended);
  CHECK(ended == std::vector<std::uint32_t>{5, 3, 9, 1, 4});
}

TEST_CASE("a ring on a star takes its closed form, step by step", "[unit][net]") {
  const std::uint32_t hosts = GENERATE(2U, 3U, 16U, 64U);
  const double bytes = GENERATE(1e3, 1e9);
  check_steps(run(star(hosts), ring(hosts, 1, bytes)), 2e-6, bytes / hosts, 50e9);
}

TEST_CASE("rings that share links take turns fairly", "[unit][net]") {
  // Neighbours are on neighbouring hosts: one flow of each ring crosses a trunk, and one crosses a host either way.
  check_steps(run(two_to_one(64), ring(64, 1, 1e9)), 2e-6, 1e9 / 64, 50e9);
  // Every hop crosses the core: sixteen hosts share a trunk of eight times a host's rate.
  check_steps(run(two_to_one(64), ring(64, 16, 1e9)), 2e-6, 1e9 / 64, 25e9);
  // Two rings over the same hosts: half the rate each.
  check_steps(run(star(32), ring(32, 1, 1e9, 2)), 2e-6, 1e9 / 32, 25e9);
}

TEST_CASE("incast shares the receiver's link", "[unit][net]") {
  const std::uint32_t hosts = GENERATE(2U, 9U, 200U);
  Traffic traffic(hosts);
  for (std::uint32_t h = 0; h < hosts; ++h) {
    traffic[h].host = h;
    if (h > 0) traffic[h].sends = {{0, 1e6}};
  }
  const Times times = run(star(hosts), traffic);
  for (std::uint32_t h = 1; h < hosts; ++h) {
    CHECK(std::abs(times[h][0] - (2e-6 + (hosts - 1) * 1e6 / 50e9)) <= rounding);
  }
}
