#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "sim/cost/collective_cost.hpp"
#include "sim/cost/nccl/link_curve.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"

// Laws of NCCL's model over random boards, networks, sizes and links.

using namespace orrery;
using Kind = Collective::Kind;

namespace {

constexpr std::array<NcclCollective, 5> collectives{NcclCollective::all_reduce, NcclCollective::all_gather,
                                                    NcclCollective::reduce_scatter, NcclCollective::broadcast,
                                                    NcclCollective::reduce};

NcclTopology random_topology(std::mt19937_64& random) {
  NcclTopology t;
  t.generation = static_cast<GpuGeneration>(random() % 4);
  t.nodes = random() % 2 == 0 ? 1 : static_cast<std::uint32_t>(random() % 40 + 1);
  t.per_node = static_cast<std::uint32_t>(random() % 8 + 1);
  if (t.nodes == 1 && t.per_node == 1) t.per_node = 2;
  t.ranks = t.nodes * t.per_node;
  t.nvlink = static_cast<double>(random() % 900 + 100) * gigabyte_per_second;
  t.port = 0.5 * static_cast<double>(random() % 200 + 1) * gigabyte_per_second;
  t.collnet = random() % 4 == 0;
  return t;
}

LinkCurve random_curve(std::mt19937_64& random) {
  const auto some = [&random](double most) { return most * static_cast<double>(random() % 1000) / 1000.0; };
  return {some(200.0) * microsecond, 0.96 + some(1.0), some(2000.0) * microsecond, some(900.0) * microsecond, 1.0};
}

}  // namespace

TEST_CASE("No collective gets cheaper with more bytes, whichever way it goes", "[property][nccl]") {
  const std::uint64_t seed = 31;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    const NcclTopology t = random_topology(random);
    const double n = std::exp2(static_cast<double>(random() % 3600) / 100.0);
    const double more = n * (1.0 + static_cast<double>(random() % 1000) / 300.0);
    for (const NcclCollective c : collectives) {
      CAPTURE(i, t.nodes, t.per_node, n, more, name_of(c));
      const auto ways = nccl_ways(c, t);
      REQUIRE_FALSE(ways.empty());
      const auto choice = nccl_choice(c, t, Bytes::of(n));
      REQUIRE(choice);
      for (const NcclWay& w : ways) {
        CHECK(w.bandwidth.base() > 0.0);
        CHECK(w.latency.base() > 0.0);
        const Seconds one = nccl_time(c, t, w, Bytes::of(n));
        CHECK(nccl_time(c, t, w, Bytes::of(more)) >= one);
        CHECK(choice->time <= one);  // the choice is the least
        CHECK(one.base() >= n / w.bandwidth.base());
      }
      CHECK(choice->moving <= choice->time);
      CHECK(nccl_choice(c, t, Bytes::of(more))->time >= choice->time);
    }
  }
}

TEST_CASE("Rings move no more than the links that NCCL counts", "[property][nccl]") {
  const std::uint64_t seed = 32;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const NcclTopology t = random_topology(random);
    const NcclGraphs g = nccl_graphs(t);
    CAPTURE(i, t.nodes, t.per_node, t.nvlink.base(), t.port.base());
    const double links = nccl_tables::nvlink_share(t.generation) * t.nvlink.in(gigabyte_per_second);
    REQUIRE(g.ring.count >= 1);
    if (t.per_node > 1) CHECK(g.ring.count * g.ring.inside <= links * (1 + 1e-9));
    if (t.nodes > 1) {
      CHECK(g.ring.count * g.ring.between <= t.per_node * t.port.in(gigabyte_per_second) * (1 + 1e-9));
    }
    if (g.nvls.count > 0) CHECK(g.nvls.count * g.nvls.inside <= links * (1 + 1e-9));
  }
}

TEST_CASE("A link's constants change no choice, and parts cost no less than the whole", "[property][nccl]") {
  const std::uint64_t seed = 33;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const LinkCurve c = random_curve(random);
    const Seconds a = std::exp2(static_cast<double>(random() % 2400) / 100.0) * microsecond;
    const Seconds b = (1.0 + static_cast<double>(random() % 1000) / 100.0) * a;
    CAPTURE(i, c.floor.base(), c.stretch, c.fill.base(), c.fill_time.base(), a.base(), b.base());
    CHECK(on_links(c, b) >= on_links(c, a));
    CHECK(on_links(c, b) / on_links(c, a) <= (b / a) * (1 + 1e-12));
    CHECK(on_links(c, a) + on_links(c, b) >= on_links(c, a + b) * (1 - 1e-12));
    // In the limit only the stretch counts.
    const Seconds long_time = Seconds::of(1e6);
    CHECK(on_links(c, long_time) / long_time == Approx(c.stretch).epsilon(1e-6));
  }
}

TEST_CASE("Where NCCL prices, its price is the collective's, and no faster than NVLink", "[property][nccl]") {
  const std::uint64_t seed = 34;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    ClusterSpec cluster;
    cluster.nodes = static_cast<std::uint32_t>(random() % 4 + 1);
    cluster.devices_per_node = static_cast<std::uint32_t>(random() % 7 + 2);
    cluster.levels = {{"nvlink", cluster.devices_per_node, 450.0 * gigabyte_per_second, microsecond},
                      {"network", cluster.nodes, 50.0 * gigabyte_per_second, microsecond}};
    Calibration k;
    k.nccl = NcclConstants{static_cast<GpuGeneration>(random() % 4), random_curve(random), random_curve(random)};
    const CollectiveCost cost(cluster, k);
    std::vector<std::uint32_t> devices;
    for (std::uint32_t d = 0; d < cluster.devices(); ++d) {
      if (d < 2 || random() % 2 == 0) devices.push_back(d);
    }
    const GroupShape shape = group_shape(devices, cluster);
    const Bytes n = Bytes::of(static_cast<double>(random() % 1000000000));
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::broadcast, Kind::barrier}) {
      CAPTURE(i, shape.members, n.base(), static_cast<int>(kind));
      const auto choice = cost.choose(kind, n, shape);
      REQUIRE(choice.nccl);
      REQUIRE(choice.moving);
      CHECK(*choice.moving <= choice.time);
      CHECK(choice.time == NcclCost(cluster, k).price(kind, n, shape)->time);
      CHECK(cost.choose(kind, 2.0 * n, shape).time >= choice.time);
      // A forced choice is never faster than NCCL's.
      CHECK(cost.choose(kind, n, shape, CollectiveAlgorithm::ring).time >= choice.time);
      CHECK(cost.choose(kind, n, shape, CollectiveAlgorithm::tree).time >= choice.time);
    }
    // NCCL does not tune sends and receives.
    CHECK_FALSE(cost.choose(Kind::all_to_all, n, shape).nccl);
    CHECK_FALSE(cost.choose(Kind::all_reduce, n, shape, CollectiveAlgorithm::recursive).nccl);
  }
}
