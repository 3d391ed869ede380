#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "sim/cost/collective_cost.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;
using Kind = Collective::Kind;

// A handful of roundings.
static bool close(Seconds a, double b) { return std::abs(a.base() - b) <= 1e-12 * std::abs(b); }

namespace {

// Inside 100 GB/s and 1 us, between 10 GB/s and 10 us.
const std::array<LinkCost, 2> links{LinkCost{microsecond, 100.0 * gigabyte_per_second},
                                    LinkCost{10.0 * microsecond, 10.0 * gigabyte_per_second}};

/// The first `members` devices of 4 nodes with 8 each.
GroupShape first(std::uint32_t members) {
  std::vector<std::uint32_t> devices(members);
  std::iota(devices.begin(), devices.end(), 0U);
  return group_shape(devices, round_cluster(4, 8));
}

const Bytes megabyte = Bytes::of(1e6);

}  // namespace

TEST_CASE("A group of one pays nothing", "[collective]") {
  for (const auto a : {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree, CollectiveAlgorithm::recursive}) {
    CHECK(collective_time(Kind::all_reduce, megabyte, first(1), a, links) == Seconds{});
  }
}

TEST_CASE("A message costs latency and bytes over bandwidth", "[p2p]") {
  CHECK(close(message_time(megabyte, links[0]), 1e-6 + 1e-5));
}

TEST_CASE("A ring inside one node", "[collective][ring]") {
  // 8 members: 7 steps of 1 us and 125 kB at 100 GB/s (1.25 us) each.
  const RingPath path = ring_path(first(8), links);
  CHECK(close(path.latency, 7e-6));
  CHECK(close(ring_half(megabyte, 8, path), 7 * 2.25e-6));
  CHECK(close(ring_all_reduce(megabyte, 8, path), 14 * 2.25e-6));
}

TEST_CASE("A ring over nodes shares the ways out among its members", "[collective][ring]") {
  // 16 members on two nodes: 14 inner hops and 2 between; the path of 15 hops
  // leaves out an inner one: 13 + 20 us.  Crossing: 8 members x 10 GB/s = 80.
  const RingPath path = ring_path(first(16), links);
  CHECK(close(path.latency, 33e-6));
  CHECK(path.bandwidth == 80.0 * gigabyte_per_second);
  // With 12 members, 8 and 4, the node with 4 members is the narrowest, 40 GB/s; there are 10 inner hops and 2 between,
  // and one is left out.
  const RingPath uneven = ring_path(first(12), links);
  CHECK(close(uneven.latency, 29e-6));
  CHECK(uneven.bandwidth == 40.0 * gigabyte_per_second);
}

TEST_CASE("One member per node uses only the network between", "[collective][ring]") {
  const std::array<std::uint32_t, 4> devices{0, 8, 16, 24};
  const RingPath path = ring_path(group_shape(devices, round_cluster(4, 8)), links);
  CHECK(close(path.latency, 30e-6));
  CHECK(path.bandwidth == 10.0 * gigabyte_per_second);
}

TEST_CASE("A tree pays latency by its depth", "[collective][tree]") {
  // 32 members: 3 rounds inside, 2 between: 23 us one way; 1 MB at min(100, 8 x 10) GB/s twice.
  CHECK(close(tree_latency(first(32), links), 23e-6));
  CHECK(close(tree_all_reduce(megabyte, first(32), links), 46e-6 + 25e-6));
  CHECK(!collective_time(Kind::all_gather, megabyte, first(8), CollectiveAlgorithm::tree, links));
}

TEST_CASE("Recursive halving keeps less at every level", "[collective][recursive]") {
  // Inside: 3 rounds, 7/8 MB at 100 GB/s; between two nodes: 1 round, half of 125 kB at 10 GB/s.
  CHECK(close(recursive_half(megabyte, first(16), links), 3e-6 + 8.75e-6 + 10e-6 + 6.25e-6));
  // Doubling: 3 (1 us + 10 us) + (10 us + 100 us).
  CHECK(close(recursive_doubling_all_reduce(megabyte, first(16), links), 33e-6 + 110e-6));
  // With 6 members, two of them hand their vector to others, four go 2 rounds, and two get the sum back: 4 (1 us + 10
  // us).
  CHECK(close(recursive_doubling_all_reduce(megabyte, first(6), links), 44e-6));
  CHECK(close(recursive_half(megabyte, first(6), links), 3e-6 + 5.0 / 6 * 1e-5));
  // 8 and 4 members: not uniform, no recursive algorithm.
  CHECK(!is_uniform(first(12)));
  CHECK(!collective_time(Kind::all_reduce, megabyte, first(12), CollectiveAlgorithm::recursive, links));
}

TEST_CASE("All-to-all by pairs and by rounds", "[collective][all-to-all]") {
  // 16 members: 7 peers inside, 8 outside, 62.5 kB each.
  CHECK(close(pairwise_all_to_all(megabyte, first(16), links), 7 * (1e-6 + 0.625e-6) + 8 * (10e-6 + 6.25e-6)));
  // 8 members: 3 rounds, 4 of 8 blocks each: 500 kB at 100 GB/s.
  CHECK(close(bruck_all_to_all(megabyte, first(8), links), 3 * (1e-6 + 5e-6)));
}

TEST_CASE("CPU ranks pay every ring step at the rate of its message", "[collective][messages]") {
  MessageRate rates;
  rates.send = {{{1e3}}, {8e9}};
  rates.copy = {{{1e3, 1e6}}, {1e9, 4e9}};
  rates.add = {{{1e3, 1e6}}, {1e9, 2e9}};
  // 4 members, 4 MB: chunks of 1 MB; 3 steps of 5 us + 500 us (add) and of 5 us + 250 us (copy).
  CHECK(close(stepwise_ring(Kind::all_reduce, Bytes::of(4e6), 4, rates, 5.0 * microsecond), 3 * 505e-6 + 3 * 255e-6));
  CHECK(close(stepwise_ring(Kind::all_gather, Bytes::of(4e6), 4, rates, 5.0 * microsecond), 3 * 255e-6));
  CHECK(close(stepwise_ring(Kind::broadcast, Bytes::of(1e6), 4, rates, 5.0 * microsecond), 3 * 130e-6));
  CHECK(close(stepwise_ring(Kind::barrier, Bytes{}, 5, rates, 5.0 * microsecond), 15e-6));
  CHECK(stepwise_ring(Kind::all_reduce, Bytes::of(4e6), 1, rates, 5.0 * microsecond) == Seconds{});
}

TEST_CASE("A message between CPU ranks wakes its receiver", "[p2p][messages]") {
  Calibration calibration;
  calibration.messages = MessageRate{};
  calibration.messages->wake = 30.0 * microsecond;
  calibration.messages->send = {{{1e3}}, {8e9}};
  // 30 us + 1 MB at 8 GB/s, whatever the level.
  CHECK(close(CollectiveCost(round_cluster(1, 8), calibration).message(megabyte, 0), 30e-6 + 125e-6));
}

TEST_CASE("The cheapest offered algorithm is chosen, unless overridden", "[collective]") {
  const ClusterSpec cluster = round_cluster(4, 8);
  Calibration calibration;
  const CollectiveCost all(cluster, calibration);
  // 8 bytes: latency decides.  Recursive: 3 + 2 x 10 us one way; ring 28 + ...
  CHECK(all.choose(Kind::all_reduce, Bytes::of(8), first(32)).algorithm == CollectiveAlgorithm::recursive);
  // 1 GB: bandwidth decides.  Ring 31/32 x 2 / 80 GB/s beats tree (2 / 80) and recursive.
  CHECK(all.choose(Kind::all_reduce, gigabyte, first(32)).algorithm == CollectiveAlgorithm::ring);
  CHECK(all.choose(Kind::all_reduce, gigabyte, first(32), CollectiveAlgorithm::tree).algorithm ==
        CollectiveAlgorithm::tree);
  // No tree all-gather: ring.
  CHECK(all.choose(Kind::all_gather, gigabyte, first(32), CollectiveAlgorithm::tree).algorithm ==
        CollectiveAlgorithm::ring);
  calibration.algorithms = {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree};
  calibration.collective_launch = 7.0 * microsecond;
  const CollectiveCost library(cluster, calibration);
  const auto small = library.choose(Kind::all_reduce, Bytes::of(8), first(32));
  CHECK(small.algorithm == CollectiveAlgorithm::tree);
  // 7 us of launch, 46 us of latency, 16 bytes at 80 GB/s.
  CHECK(close(small.time, 53e-6 + 2e-10));
}

TEST_CASE("Levels are as fast as the calibration found them", "[collective]") {
  Calibration calibration;
  calibration.level_efficiency = {0.8, 0.5};
  const CollectiveCost cost(round_cluster(4, 8), calibration);
  CHECK(close(cost.message(megabyte, 0), 1e-6 + 1e6 / 80e9));
  CHECK(close(cost.message(megabyte, 1), 10e-6 + 1e6 / 5e9));
}

TEST_CASE("Devices that progress one lane at a time run rings only", "[collective]") {
  ClusterSpec cluster = round_cluster(1, 8);
  cluster.device.concurrent_lanes = false;
  const CollectiveCost cost(cluster, {});
  CHECK(cost.choose(Kind::all_reduce, Bytes::of(8), first(8), CollectiveAlgorithm::tree).algorithm ==
        CollectiveAlgorithm::ring);
}
