#include <catch2/catch.hpp>

#include <cmath>
#include <numeric>

#include "sim/net/messages.hpp"

using namespace orrery;

namespace {

// The code that docs/extending.md says a person writes for a collective, whole in this file.

/// All-gather around a ring in both directions at once. At step s every member passes on what it got s steps ago, to
/// the next one what came from the last and to the last one what came from the next. There are (p - 1) / 2 steps, of
/// which the last goes only one way where p is even.
Messages two_way_ring_all_gather_messages(std::uint32_t p, Bytes payload) {
  Messages messages;
  for (std::uint32_t step = 0; 2 * step < p - 1; ++step) {
    for (std::uint32_t from = 0; from < p; ++from) {
      messages.push_back({step, from, (from + 1) % p, (1.0 / p) * payload});
      if (2 * step + 1 < p - 1) messages.push_back({step, from, (from + p - 1) % p, (1.0 / p) * payload});
    }
  }
  return messages;
}

}  // namespace

// On a star each member's link is shared by its two messages:
//   T = floor((p - 1) / 2) (a + 2 n / (p b)) + [p even] (a + n / (p b))
// Latency is half of the one-way ring's, bytes are the same.
TEST_CASE("a collective of a test's own takes its closed form on a fabric", "[unit][net]") {
  const std::uint32_t p = GENERATE(2U, 3U, 5U, 8U, 33U);
  const double n = GENERATE(1e3, 1e8);
  const double a = 1.7e-6, b = 23.5e9;
  FabricSpec star;
  star.nodes = p;
  star.network = TreeNetwork{{{p, 1, {LinkKind::network, Bandwidth::of(b), Seconds::of(a / 2)}}}, false};
  Job job{std::vector<std::uint32_t>(p), two_way_ring_all_gather_messages(p, Bytes::of(n))};
  std::iota(job.gpus.begin(), job.gpus.end(), 0U);
  const JobTimes t = run_jobs(Fabric(star), {job}, PathRule::by_destination, 1);
  const double both = (p - 1) / 2, one = p % 2 == 0 ? 1 : 0;
  const double want = both * (a + 2 * n / (p * b)) + one * (a + n / (p * b));
  CAPTURE(p, n);
  // Half a picosecond per message.
  CHECK(std::abs(1e-12 * static_cast<double>(t.ends[0]) - want) <= 1e-12 * p);
  CHECK(t.carried[0].base() == Approx((p - 1.0) / p * n));
}
