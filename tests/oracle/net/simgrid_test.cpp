#include <catch2/catch.hpp>

#include <cstdlib>

#include "tests/support/net/traffic.hpp"

// The differential test against SimGrid (model CM02, no cross traffic), which
// is built only where SimGrid is found.  Routes have equal latency, since
// SimGrid weighs shares by it.

using namespace orrery;
using namespace orrery::test;

TEST_CASE("times equal SimGrid's within 1e-6, on routes of equal latency", "[oracle][net]") {
  const std::uint32_t hosts = GENERATE(64U, 128U, 256U, 512U);
  const Tree tree = GENERATE_COPY(star(hosts), two_to_one(hosts));
  CAPTURE(hosts, tree.per_leaf);
  const auto difference = [&](const Traffic& traffic, SimgridUpdate update = SimgridUpdate::lazy) {
    return largest_difference(run(tree, traffic), run_simgrid(tree, traffic, update).value());
  };
  // This is half a million messages and more, for the long run and perf_network.
  if (hosts < 512 || std::getenv("ORRERY_LONG_TESTS") != nullptr) {
    CHECK(difference(ring(hosts, 1, 1e9)) < 1e-6);
    CHECK(difference(ring(hosts, 16, 1e9)) < 1e-6);
    CHECK(difference(ring(hosts, 1, 1e9, 2)) < 1e-6);
  }
  // Only the first of the messages are compared, before roundings have grown (docs/network-model.md, "Time").
  CHECK(difference(irregular(hosts, 4, 11)) < 1e-6);
  CHECK(difference(irregular(hosts, hosts < 512 ? 6 : 2, 12, true), SimgridUpdate::full) < 1e-6);
}
