#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/cost/nccl/link_curve.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"
#include "sim/cost/nccl/nccl_model.hpp"

using namespace orrery;
using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;

namespace {

/// One board of a generation, with the NVLinks of A100, H100 and B200.
NcclTopology board(GpuGeneration g, std::uint32_t gpus) {
  const double links = g == GpuGeneration::ampere ? 300.0 : (g == GpuGeneration::hopper ? 450.0 : 900.0);
  return {g, gpus, 1, gpus, links * gigabyte_per_second, {}, false};
}

/// Boards of eight with a port of 400 Gbit/s for each device.
NcclTopology boards(GpuGeneration g, std::uint32_t nodes) {
  NcclTopology t = board(g, 8);
  t.ranks = 8 * nodes;
  t.nodes = nodes;
  t.port = 50.0 * gigabyte_per_second;
  return t;
}

NcclWay way(const std::vector<NcclWay>& ways, Algorithm a, Protocol p) {
  for (const NcclWay& w : ways) {
    if (w.algorithm == a && w.protocol == p) return w;
  }
  FAIL("no " << name_of(a) << " " << name_of(p));
  return {};
}

bool has(const std::vector<NcclWay>& ways, Algorithm a) {
  return std::any_of(ways.begin(), ways.end(), [a](const NcclWay& w) { return w.algorithm == a; });
}

double us(Seconds s) { return s.in(microsecond); }
double gbs(Bandwidth b) { return b.in(gigabyte_per_second); }

/// nccl-tests' bus bandwidth in the limit of many bytes.
double bus_bandwidth(NcclCollective c, const NcclTopology& t, const NcclWay& w) {
  const double n = t.ranks;
  return gbs(w.bandwidth) * (c == NcclCollective::all_reduce ? 2.0 : 1.0) * (n - 1.0) / n;
}

}  // namespace

// As NCCL 2.29.7 printed it for two ranks on two hosts over sockets: latency in us of each protocol, and bandwidth in
// GB/s, there over one channel of 2.4 GB/s, here of 3.
TEST_CASE("A printed tuning table is reproduced", "[unit][nccl]") {
  const NcclTopology t{GpuGeneration::volta, 2, 2, 1, 300.0 * gigabyte_per_second, 3.0 * gigabyte_per_second, false};
  REQUIRE(nccl_graphs(t).ring == NcclChannels{1, 3.0, 3.0});
  const auto gather = nccl_ways(NcclCollective::all_gather, t);
  CHECK(us(way(gather, Algorithm::ring, Protocol::ll).latency) == Approx(11.6));
  CHECK(us(way(gather, Algorithm::ring, Protocol::ll128).latency) == Approx(22.5));
  CHECK(us(way(gather, Algorithm::ring, Protocol::simple).latency) == Approx(22.4));
  const auto broadcast = nccl_ways(NcclCollective::broadcast, t);
  CHECK(us(way(broadcast, Algorithm::ring, Protocol::ll).latency) == Approx(9.3));
  CHECK(us(way(broadcast, Algorithm::ring, Protocol::simple).latency) == Approx(22.4));
  // Bandwidths over the channel's: gather LL 2.4 and Simple 4.8 of 2.4, broadcast 1.2 and 2.4.
  const double channel = nccl_graphs(t).ring.inside;
  CHECK(gbs(way(gather, Algorithm::ring, Protocol::ll).bandwidth) == Approx(channel));
  CHECK(gbs(way(gather, Algorithm::ring, Protocol::simple).bandwidth) == Approx(2.0 * channel));
  CHECK(gbs(way(broadcast, Algorithm::ring, Protocol::ll).bandwidth) == Approx(0.5 * channel));
  CHECK(gbs(way(broadcast, Algorithm::ring, Protocol::simple).bandwidth) == Approx(channel));
}

TEST_CASE("Channels are those of NCCL's logs", "[unit][nccl]") {
  CHECK(nccl_graphs(board(GpuGeneration::ampere, 8)).ring == NcclChannels{12, 20.0, 20.0});
  CHECK(nccl_graphs(board(GpuGeneration::ampere, 8)).nvls == NcclChannels{});
  const NcclGraphs h100 = nccl_graphs(board(GpuGeneration::hopper, 8));
  CHECK(h100.ring == NcclChannels{12, 30.0, 30.0});
  CHECK(h100.nvls == NcclChannels{8, 40.0, 0.0});
  const NcclGraphs b200 = nccl_graphs(board(GpuGeneration::blackwell, 8));
  CHECK(b200.ring == NcclChannels{16, 45.0, 45.0});
  CHECK(b200.nvls == NcclChannels{8, 90.0, 0.0});
  // Between boards: eight ports of 50 GB/s, of which NVLink can feed rings of 45.
  CHECK(nccl_graphs(boards(GpuGeneration::hopper, 2)).ring == NcclChannels{8, 45.0, 45.0});
  CHECK(nccl_graphs(boards(GpuGeneration::hopper, 2)).nvls == NcclChannels{8, 40.0, 48.0});
}

TEST_CASE("With many bytes a ring reaches what its channels move", "[unit][nccl]") {
  for (const auto& [generation, limit] :
       {std::pair{GpuGeneration::ampere, 240.0}, {GpuGeneration::hopper, 360.0}, {GpuGeneration::blackwell, 720.0}}) {
    for (const std::uint32_t gpus : {2U, 3U, 5U, 8U}) {
      for (const auto c : {NcclCollective::all_reduce, NcclCollective::all_gather, NcclCollective::reduce_scatter}) {
        const NcclTopology t = board(generation, gpus);
        const NcclWay w = way(nccl_ways(c, t), Algorithm::ring, Protocol::simple);
        CHECK(bus_bandwidth(c, t, w) == Approx(limit));
        // The rate at 1 PB is that limit.
        CHECK(1e15 / nccl_time(c, t, w, Bytes::of(1e15)).base() == Approx(w.bandwidth.base()).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("Reductions in switches reach their published rates", "[unit][nccl]") {
  const auto rate = [](const NcclTopology& t, Algorithm a) {
    const auto c = NcclCollective::all_reduce;
    return bus_bandwidth(c, t, way(nccl_ways(c, t), a, Protocol::simple));
  };
  // 8 heads of 40 GB/s at 0.85, 7/8 and twice: 476 of all-reduce on one H100 board.
  CHECK(rate(board(GpuGeneration::hopper, 8), Algorithm::nvls) == Approx(476.0));
  // 8 x 57.7 on two.
  CHECK(rate(boards(GpuGeneration::hopper, 2), Algorithm::nvls_tree) == Approx(461.6));
  // 0.735 of 721.8 GB/s on a B200 board: 530.5 GB/s of the vector.
  CHECK(rate(board(GpuGeneration::blackwell, 8), Algorithm::nvls) == Approx(530.523 * 1.75));
}

TEST_CASE("Only algorithms that can run are there", "[unit][nccl]") {
  const auto on_board = nccl_ways(NcclCollective::all_reduce, board(GpuGeneration::hopper, 8));
  CHECK(has(on_board, Algorithm::nvls));
  CHECK_FALSE(has(on_board, Algorithm::nvls_tree));
  CHECK_FALSE(has(on_board, Algorithm::collnet_chain));
  CHECK_FALSE(has(nccl_ways(NcclCollective::all_reduce, board(GpuGeneration::ampere, 8)), Algorithm::nvls));
  const auto between = nccl_ways(NcclCollective::all_reduce, boards(GpuGeneration::hopper, 4));
  CHECK(has(between, Algorithm::nvls_tree));
  CHECK_FALSE(has(between, Algorithm::nvls));  // without SHARP
  NcclTopology sharp = boards(GpuGeneration::hopper, 4);
  sharp.collnet = true;
  for (const Algorithm a : {Algorithm::collnet_direct, Algorithm::collnet_chain, Algorithm::nvls}) {
    CHECK(has(nccl_ways(NcclCollective::all_reduce, sharp), a));
  }
  // PAT: one GPU of each node.
  NcclTopology alone = boards(GpuGeneration::hopper, 4);
  alone.ranks = 4;
  alone.per_node = 1;
  CHECK(has(nccl_ways(NcclCollective::all_gather, alone), Algorithm::pat));
  CHECK_FALSE(has(nccl_ways(NcclCollective::all_gather, boards(GpuGeneration::hopper, 4)), Algorithm::pat));
  CHECK_FALSE(has(nccl_ways(NcclCollective::broadcast, boards(GpuGeneration::hopper, 4)), Algorithm::tree));
}

// On H200, all-reduce over 8 GPUs takes LL around a ring to 1 MiB and NVLS from 2 MiB on; with fewer GPUs it takes
// rings up to four.
TEST_CASE("NCCL's choices on a board of H200", "[unit][nccl]") {
  const NcclTopology eight = board(GpuGeneration::hopper, 8);
  for (int log = 10; log <= 34; ++log) {
    CAPTURE(log);
    const auto c = nccl_choice(NcclCollective::all_reduce, eight, Bytes::of(std::ldexp(1.0, log)));
    REQUIRE(c);
    CHECK(c->way.algorithm == (log <= 20 ? Algorithm::ring : Algorithm::nvls));
    CHECK(c->way.protocol == (log <= 20 ? Protocol::ll : Protocol::simple));
  }
  for (std::uint32_t gpus = 2; gpus <= 8; ++gpus) {
    CAPTURE(gpus);
    const auto c = nccl_choice(NcclCollective::all_reduce, board(GpuGeneration::hopper, gpus), Bytes::of(8e9));
    CHECK(c->way.algorithm == (gpus <= 4 ? Algorithm::ring : Algorithm::nvls));
    CHECK(nccl_choice(NcclCollective::all_gather, board(GpuGeneration::hopper, gpus), Bytes::of(8e9))->way.algorithm ==
          Algorithm::ring);
  }
}

TEST_CASE("What is excluded is not taken", "[unit][nccl]") {
  const NcclTopology t = board(GpuGeneration::hopper, 8);
  NcclExcluded excluded{};
  excluded[static_cast<std::size_t>(Algorithm::nvls)] = true;
  CHECK(nccl_choice(NcclCollective::all_reduce, t, Bytes::of(8e9), excluded)->way.algorithm == Algorithm::ring);
  CHECK(nccl_choice(NcclCollective::all_reduce, t, Bytes::of(8e9), all_but(Algorithm::tree))->way.algorithm ==
        Algorithm::tree);
  CHECK_FALSE(nccl_choice(NcclCollective::all_gather, t, Bytes::of(8e9), all_but(Algorithm::tree)));
}

TEST_CASE("A link's constants make a time of NCCL's", "[unit][nccl]") {
  const LinkCurve c{30.0 * microsecond, 1.1, 60.0 * microsecond, 100.0 * microsecond, 1.0};
  CHECK(us(on_links(c, {})) == Approx(30.0));
  CHECK(us(on_links(c, 10.0 * microsecond)) == Approx(30.0));  // 11 + 60 (1 - exp(-0.1)) = 16.7
  // 110 + 60 (1 - 1/e) = 147.93.
  CHECK(us(on_links(c, 100.0 * microsecond)) == Approx(147.927).epsilon(1e-5));
  CHECK(us(on_links(c, Seconds::of(1.0))) == Approx(1.1e6 + 60.0));
  CHECK(on_links({}, 7.0 * microsecond) == 7.0 * microsecond);
}

TEST_CASE("Levels as fast as the innermost are one domain", "[unit][nccl]") {
  ClusterSpec rack;
  rack.levels = {{"tray", 4, 900.0 * gigabyte_per_second, {}},
                 {"rack", 16, 900.0 * gigabyte_per_second, {}},
                 {"network", 2, 50.0 * gigabyte_per_second, {}}};
  rack.nodes = 32;
  rack.devices_per_node = 4;
  Calibration k;
  k.nccl = NcclConstants{GpuGeneration::blackwell, {}, {}};
  const NcclCost cost(rack, k);
  std::vector<std::uint32_t> devices(128);
  for (std::uint32_t d = 0; d < 128; ++d) devices[d] = d;
  const NcclTopology all = cost.topology(group_shape(devices, rack));
  CHECK(all.nodes == 2);
  CHECK(all.per_node == 64);
  CHECK(all.port == 50.0 * gigabyte_per_second);
  devices.resize(64);
  CHECK(cost.topology(group_shape(devices, rack)).nodes == 1);
  // One device of each rack.
  CHECK(cost.topology(group_shape(std::vector<std::uint32_t>{3, 67}, rack)).per_node == 1);
  // Without NVLink there is no price: PCIe reaches less.
  rack.levels[0].bandwidth = 63.0 * gigabyte_per_second;
  CHECK_FALSE(NcclCost::applies(rack, k));
  CHECK_FALSE(NcclCost::applies(rack, {}));
}
