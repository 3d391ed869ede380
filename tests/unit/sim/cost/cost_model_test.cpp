#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/cost/cost_model.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

namespace {

/// One block on 2 data x 2 pipeline ranks: a fill, an all-reduce over data, a
/// send to the next stage with its receive, an allocation.
Program small_program() {
  Program p;
  p.mesh = Mesh{{{Axis::pipeline, 2}, {Axis::data, 2}}};
  Buffer b;
  b.name = "x";
  b.dtype = DType::f32;
  b.count = 1000;
  p.buffers = {b};
  p.groups = {Group{{Axis::data}, {}}, Group{{Axis::pipeline}, {}}};
  Block block;
  block.name = "all kinds";
  Kernel fill;
  fill.kind = KernelKind::fill;
  block.kernels = {fill};
  block.views = {View{BufferId{0}, 0, 1000, View::Use::write, 0, {}},
                 View{BufferId{0}, 0, 1000, View::Use::accumulate, 0, {}},
                 View{BufferId{0}, 0, 250, View::Use::read, 0, {}}};
  block.transfers = {Transfer{true, Peer{1}, GroupId{1}, 0, 0}};
  block.ops = {Op{Compute{0}, {}, {}, {0, 1}},
               Op{Collective{Collective::Kind::all_reduce, Collective::Reduction::sum, GroupId{0}, {}}, {}, {}, {1, 1}},
               Op{Exchange{{0, 1}}, {}, {}, {2, 1}}, Op{Alloc{BufferId{0}, 0}, {}, {}, {}}};
  p.blocks = {block};
  return p;
}

}  // namespace

TEST_CASE("Every op has a price in whole picoseconds", "[cost-model]") {
  const ClusterSpec cluster = round_cluster(2, 2);
  const Program p = small_program();
  const CostModel costs(cluster, {}, p.mesh);
  const Block& block = p.blocks[0];
  // 4000 bytes at 1 TB/s: 4 ns.
  CHECK(costs.price(p, block, block.ops[0], Rank{0}) == 4000);
  // Data groups {0, 1} and {2, 3} lie inside nodes.  4000 bytes on two ranks:
  // ring 2 (1 us + 2000 B / 100 GB/s) = 2.04 us; recursive doubling 1 us + 40 ns is cheaper.
  CHECK(costs.price(p, block, block.ops[1], Rank{0}) == 1'040'000);
  CHECK(costs.choice(Collective::Kind::all_reduce, Bytes::of(4000), group_shapes(p.groups[0], p.mesh, {}, cluster)[0])
            .algorithm == CollectiveAlgorithm::recursive);
  // To the other node: 10 us + 1000 B / 10 GB/s = 10.1 us.
  CHECK(costs.price(p, block, block.ops[2], Rank{0}) == 10'100'000);
  CHECK(costs.price(p, block, block.ops[3], Rank{0}) == 0);
}

// Four ranks share 8 GB/s of reading and 4 GB/s of writing; host memory has no figures, and copies to the device none.
TEST_CASE("A copy from or to the disk costs its latency and a rank's share of the disk", "[cost-model]") {
  ClusterSpec cluster = round_cluster(1, 4);
  cluster.levels.pop_back();
  cluster.disk = DiskSpec{Bytes::of(1e12), Bandwidth::of(8e9), Bandwidth::of(4e9), Seconds::of(1e-4)};
  Program p = small_program();
  for (const Tier tier : {Tier::host, Tier::disk}) {
    Buffer b = p.buffers[0];
    b.tier = tier;
    p.buffers.push_back(b);
  }
  Block block;
  block.views = {View{BufferId{2}, 0, 1000, View::Use::read, 0, {}},
                 View{BufferId{1}, 0, 1000, View::Use::write, 0, {}}};
  const CostModel costs(cluster, {}, p.mesh);
  const auto price = [&](Tier from, Tier to) {
    const Op op{Copy{from, to}, {}, {}, {0, 2}};
    return costs.price(p, block, op, Rank{0});
  };
  CHECK(price(Tier::disk, Tier::host) == 100'000'000 + 2'000'000);  // 100 us, 4000 bytes at 2 GB/s
  CHECK(price(Tier::host, Tier::disk) == 100'000'000 + 4'000'000);
  CHECK(price(Tier::host, Tier::device) == 4000 * 2);  // read and written in the device's memory, 1 TB/s
  // A measured disk is as fast as measured; a cluster without a disk has none, whatever was measured elsewhere.
  Calibration measured;
  measured.disk = DiskRate{Bandwidth::of(4e9), Bandwidth::of(1e9), Seconds::of(2e-4)};
  const Op write{Copy{Tier::host, Tier::disk}, {}, {}, {0, 2}}, read{Copy{Tier::disk, Tier::host}, {}, {}, {0, 2}};
  const CostModel by_measurement(cluster, measured, p.mesh);
  CHECK(by_measurement.price(p, block, read, Rank{0}) == 200'000'000 + 4'000'000);
  CHECK(by_measurement.price(p, block, write, Rank{0}) == 200'000'000 + 16'000'000);
  cluster.disk.reset();
  CHECK(CostModel(cluster, measured, p.mesh).price(p, block, write, Rank{0}) ==
        CostModel(cluster, {}, p.mesh).price(p, block, write, Rank{0}));
}

// Four ranks are on two nodes of two. A ring of all crosses nodes with every pass. Rings of two consecutive ranks do
// not, and they do not when a placement puts the first of them together with the third.
TEST_CASE("A permute inside narrow rings crosses the links of these alone", "[cost-model]") {
  const ClusterSpec cluster = round_cluster(2, 2);
  Program p = small_program();
  p.mesh = Mesh{{{Axis::context, 4}}};
  p.groups = {Group{{Axis::context}, {}}};
  Block& block = p.blocks[0];
  block.views = {View{BufferId{0}, 0, 1000, View::Use::read, 0, {}},
                 View{BufferId{0}, 0, 1000, View::Use::write, 0, {}}};
  const auto price = [&](std::uint32_t distance, std::uint32_t width, std::vector<std::uint32_t> placement) {
    const Collective permute{Collective::Kind::permute, Collective::Reduction::sum, GroupId{0}, Peer{distance}, width};
    block.ops = {Op{permute, {}, {}, {0, 2}}};
    return CostModel(cluster, {}, p.mesh, std::move(placement)).price(p, block, block.ops[0], Rank{0});
  };
  // 4000 bytes: 1 us + 4000 B / 100 GB/s = 1.04 us inside a node, 10 us + 4000 B / 10 GB/s = 10.4 us between them.
  CHECK(price(1, 0, {}) == 10'400'000);
  CHECK(price(2, 0, {}) == 10'400'000);
  CHECK(price(1, 2, {}) == 1'040'000);
  CHECK(price(1, 2, {0, 2, 1, 3}) == 10'400'000);
  CHECK(price(1, 4, {}) == 10'400'000);
}

TEST_CASE("The plan's override reaches the collectives", "[cost-model]") {
  const ClusterSpec cluster = round_cluster(2, 2);
  const Program p = small_program();
  const CostModel costs(cluster, {}, p.mesh, {}, CollectiveAlgorithm::ring);
  CHECK(costs.price(p, p.blocks[0], p.blocks[0].ops[1], Rank{0}) == 2'040'000);
}

TEST_CASE("A collective costs its slowest group", "[cost-model]") {
  // Ranks 0 and 1 share node 0; ranks 2 and 3 are placed on different nodes.
  const ClusterSpec cluster = round_cluster(3, 2);
  const Program p = small_program();
  const CostModel costs(cluster, {}, p.mesh, {0, 1, 2, 4}, CollectiveAlgorithm::ring);
  // 2 (10 us + 2000 B / 10 GB/s).
  CHECK(costs.price(p, p.blocks[0], p.blocks[0].ops[1], Rank{0}) == 20'400'000);
}

TEST_CASE("Sharing of cores is stated when ranks exceed them", "[cost-model]") {
  ClusterSpec cluster = round_cluster(1, 4);
  cluster.levels.pop_back();
  const Program p = small_program();
  CHECK(!CostModel(cluster, {}, p.mesh).core_sharing());
  cluster.device.cores_shared = 2;
  CHECK(CostModel(cluster, {}, p.mesh).core_sharing() == CoreSharing{2, 4});
  cluster.device.cores_shared = 4;
  CHECK(!CostModel(cluster, {}, p.mesh).core_sharing());
}

TEST_CASE("Ranks that share a node slow each other as measured", "[cost-model]") {
  ClusterSpec cluster = round_cluster(1, 4);
  cluster.levels.pop_back();
  Calibration calibration;
  calibration.busy_memory_slowdown = 1.5;
  const Program p = small_program();
  const auto fill = [&] {
    return CostModel(cluster, calibration, p.mesh).price(p, p.blocks[0], p.blocks[0].ops[0], Rank{0});
  };
  CHECK(fill() == 4000);  // not cores of one machine
  cluster.device.cores_shared = 4;
  CHECK(fill() == 6000);
}

// The answer for all pairs is compared with every pair of neighbouring stages, one by one: for meshes and nodes that
// cut pairs alike and not, with and without a placement.
TEST_CASE("The levels of pairs of ranks are those of each pair", "[cost-model]") {
  int several = 0;  // cases in which pairs differ
  for (const std::uint32_t per_node : {2U, 3U, 4U, 6U, 8U}) {
    for (const std::uint32_t tensor : {1U, 2U, 3U}) {
      for (const bool reversed_pairs : {false, true}) {
        const Mesh mesh{{{Axis::data, 2}, {Axis::pipeline, 4}, {Axis::tensor, tensor}}};
        const auto ranks = static_cast<std::uint32_t>(mesh.size());
        const ClusterSpec cluster = round_cluster((ranks + per_node - 1) / per_node, per_node);
        std::vector<std::uint32_t> placement;
        // Device 2 i + 1 before device 2 i on every other pair: an order that no mesh has.
        for (std::uint32_t r = 0; reversed_pairs && r < ranks; ++r) placement.push_back(r % 4 < 2 ? r ^ 1U : r);
        const CostModel costs(cluster, Calibration{}, mesh, placement);
        for (std::uint32_t stage = 0; stage + 1 < 4; ++stage) {
          CAPTURE(per_node, tensor, reversed_pairs, stage);
          std::uint32_t expected = 0;
          Seconds slowest;
          const Bytes bytes = Bytes::of(1e6);
          for (std::uint32_t r = 0; r < ranks; ++r) {
            if (mesh.coordinate(Rank{r}, Axis::pipeline) != stage) continue;
            const Rank next = mesh.moved(Rank{r}, Axis::pipeline, stage + 1);
            const std::uint32_t a = reversed_pairs ? placement[r] : r;
            const std::uint32_t b = reversed_pairs ? placement[index(next)] : index(next);
            expected |= std::uint32_t{1} << level_between(a, b, cluster);
            slowest = std::max(slowest, costs.transfer(bytes, Rank{r}, next));
          }
          const Rank here = mesh.moved(Rank{0}, Axis::pipeline, stage);
          const Rank next = mesh.moved(here, Axis::pipeline, stage + 1);
          CHECK(costs.pair_levels({Axis::pipeline}, here, next) == expected);
          CHECK(costs.transfer(bytes, costs.pair_levels({Axis::pipeline}, here, next)) == slowest);
          several += expected == 3 ? 1 : 0;
        }
      }
    }
  }
  CHECK(several > 0);
}
