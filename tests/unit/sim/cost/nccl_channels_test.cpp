#include <catch2/catch.hpp>

#include <numeric>

#include "sim/cost/collective_cost.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"

using namespace orrery;
using Kind = Collective::Kind;

namespace {

/// Boxes of eight H100: NVLink 450 GB/s, a port of 50 GB/s each.
ClusterSpec boxes(std::uint32_t nodes) {
  ClusterSpec c;
  c.nodes = nodes;
  c.devices_per_node = 8;
  c.levels = {{"nvlink", 8, 450.0 * gigabyte_per_second, microsecond},
              {"network", nodes, 50.0 * gigabyte_per_second, microsecond}};
  return c;
}

Calibration hopper() {
  Calibration k;
  k.nccl = NcclConstants{GpuGeneration::hopper, {}, {}};
  return k;
}

GroupShape all(const ClusterSpec& c) {
  std::vector<std::uint32_t> devices(c.devices());
  std::iota(devices.begin(), devices.end(), 0U);
  return group_shape(devices, c);
}

}  // namespace

// A box of H100: rings of 12 channels of 30 GB/s move 8 / 14 of that, 206 GB/s, NVLS 256 and more.
TEST_CASE("One's own choice of switches is NVLS, and CollNet where the network's switches add", "[nccl]") {
  const ClusterSpec one = boxes(1);
  const CollectiveCost cost(one, hopper());
  const auto own = cost.choose(Kind::all_reduce, gigabyte, all(one), CollectiveAlgorithm::in_network);
  CHECK(own.nccl == NcclAlgorithm::nvls);
  CHECK(own.time < cost.choose(Kind::all_reduce, gigabyte, all(one), CollectiveAlgorithm::ring).time);
  // Small payloads too, for which NCCL would choose something else.
  const auto little = cost.choose(Kind::all_reduce, Bytes::of(1024), all(one), CollectiveAlgorithm::in_network);
  CHECK(little.nccl == NcclAlgorithm::nvls);
  CHECK(little.time > cost.choose(Kind::all_reduce, Bytes::of(1024), all(one)).time);
  // Broadcasts have no such way, so they take a ring.
  CHECK(cost.choose(Kind::broadcast, gigabyte, all(one), CollectiveAlgorithm::in_network).nccl == NcclAlgorithm::ring);

  ClusterSpec many = boxes(4);
  CHECK(CollectiveCost(many, hopper())
            .choose(Kind::all_reduce, gigabyte, all(many), CollectiveAlgorithm::in_network)
            .nccl == NcclAlgorithm::nvls_tree);
  CHECK_FALSE(NcclCost(many, hopper()).topology(all(many)).collnet);
  many.levels[1].switches = SwitchSum::sharp;
  CHECK(NcclCost(many, hopper()).topology(all(many)).collnet);
  const auto sharp =
      CollectiveCost(many, hopper()).choose(Kind::all_reduce, gigabyte, all(many), CollectiveAlgorithm::in_network);
  // NVLS inside and SHARP between: 8 heads of 50 GB/s, all in one pass.
  CHECK(sharp.nccl == NcclAlgorithm::nvls);
  // A group inside one box crosses no network.
  const std::vector<std::uint32_t> inside{0, 1, 2, 3};
  CHECK_FALSE(NcclCost(many, hopper()).topology(group_shape(inside, many)).collnet);
}

TEST_CASE("Channels that NCCL found stand for those that are derived", "[nccl]") {
  ClusterSpec c = boxes(1);
  const GroupShape shape = all(c);
  const auto ring = [&](Bytes n) {
    return CollectiveCost(c, hopper()).choose(Kind::all_gather, n, shape, CollectiveAlgorithm::ring).time;
  };
  const Seconds derived = ring(gigabyte);
  // The file states what is derived for a box of H100, so there is no difference.
  c.channels = {{ChannelGraph::Kind::ring, 8, 1, 12, 30.0 * gigabyte_per_second, 30.0 * gigabyte_per_second, "log"}};
  CHECK(ring(gigabyte) == derived);
  // A third of the channels: three times as long, but for 7 steps of latency (of 1 ms).
  c.channels[0].channels = 4;
  CHECK(ring(gigabyte) / derived == Approx(3.0).epsilon(0.02));
  // They say nothing about another group.
  c.channels[0].ranks = 4;
  CHECK(ring(gigabyte) == derived);
  c.channels[0].ranks = 8;
  c.channels[0].nodes = 2;
  CHECK(ring(gigabyte) == derived);
  // Rings' channels count for trees as well, unless trees' are given.
  c.channels = {{ChannelGraph::Kind::ring, 8, 1, 4, 30.0 * gigabyte_per_second, 30.0 * gigabyte_per_second, "log"}};
  CHECK(nccl_graphs(NcclCost(c, hopper()).topology(shape)).tree.count == 4);
  c.channels.push_back(
      {ChannelGraph::Kind::tree, 8, 1, 6, 20.0 * gigabyte_per_second, 20.0 * gigabyte_per_second, "log"});
  c.channels.push_back(
      {ChannelGraph::Kind::nvls, 8, 1, 8, 10.0 * gigabyte_per_second, 10.0 * gigabyte_per_second, "log"});
  const NcclGraphs g = nccl_graphs(NcclCost(c, hopper()).topology(shape));
  CHECK(g.ring == NcclChannels{4, 30.0, 30.0});
  CHECK(g.tree == NcclChannels{6, 20.0, 20.0});
  CHECK(g.nvls == NcclChannels{8, 10.0, 10.0});
}
