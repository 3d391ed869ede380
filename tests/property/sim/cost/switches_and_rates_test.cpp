#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "sim/cost/collective_cost.hpp"

using namespace orrery;
using Kind = Collective::Kind;

namespace {

constexpr Kind kinds[] = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast, Kind::all_gather,
                          Kind::reduce_scatter, Kind::all_to_all, Kind::permute,   Kind::barrier};
constexpr CollectiveAlgorithm algorithms[] = {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
                                              CollectiveAlgorithm::recursive, CollectiveAlgorithm::in_network};

double uniform(std::mt19937_64& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() % 1000003) / 1000003.0;
}

/// Up to three levels, some with switches that add, some with rates by size.
ClusterSpec random_cluster(std::mt19937_64& random) {
  ClusterSpec c;
  const std::size_t levels = random() % 3 + 1;
  for (std::size_t l = 0; l < levels; ++l) {
    NetworkLevel level{"level", static_cast<std::uint32_t>(random() % 6 + 1),
                       Bandwidth::of(std::pow(10.0, uniform(random, 9, 11.5))),
                       Seconds::of(std::pow(10.0, uniform(random, -6.5, -5)))};
    if (random() % 2 == 0) level.switches = static_cast<SwitchSum>(random() % 2);
    if (random() % 2 == 0) {
      // Sizes go from the largest down, and rates fall by at most as much as sizes do.
      double size = std::pow(10.0, uniform(random, 4, 8)), rate = level.bandwidth.base();
      for (std::uint64_t points = random() % 6 + 1; points > 0; --points) {
        level.rates.insert(level.rates.begin(), {Bytes::of(size), Bandwidth::of(rate)});
        const double step = uniform(random, 1.5, 4);
        size /= step;
        rate /= std::pow(step, uniform(random, 0, 1));
      }
    }
    c.levels.push_back(std::move(level));
  }
  c.devices_per_node = c.levels[0].size;
  c.nodes = 1;
  for (std::size_t l = 1; l < levels; ++l) c.nodes *= c.levels[l].size;
  return c;
}

std::vector<std::uint32_t> random_devices(const ClusterSpec& c, std::mt19937_64& random) {
  std::vector<std::uint32_t> devices;
  const std::uint64_t keep = random() % 4 + 1;
  for (std::uint32_t d = 0; d < c.devices(); ++d) {
    if (keep == 4 || random() % 4 < keep) devices.push_back(d);
  }
  if (devices.empty()) devices.push_back(0);
  return devices;
}

}  // namespace

// Bounds rest on this: time grows with bytes, and parts together never cost less than the whole.
TEST_CASE("With rates by size and switches that add, more bytes cost more, and in parts no less",
          "[property][collective]") {
  const std::uint64_t seed = 51;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 400; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    const CollectiveCost cost(cluster, {});
    const GroupShape shape = group_shape(random_devices(cluster, random), cluster);
    const double n = std::pow(10.0, uniform(random, 1, 10)), more = n * uniform(random, 1, 50);
    const double part = uniform(random, 0.05, 0.95);
    // Sums of a few dozen terms.
    const double rounding = 1.0 - 1e-12;
    for (const Kind kind : kinds) {
      CAPTURE(i, shape.members, n, more, part, static_cast<int>(kind));
      const auto whole = cost.choose(kind, Bytes::of(n), shape);
      CHECK(cost.choose(kind, Bytes::of(more), shape).time >= rounding * whole.time);
      CHECK(cost.choose(kind, Bytes::of(part * n), shape).time +
                cost.choose(kind, Bytes::of((1 - part) * n), shape).time >=
            rounding * whole.time);
      for (const CollectiveAlgorithm algorithm : algorithms) {
        const auto one = collective_time(kind, Bytes::of(n), shape, algorithm, cost.links());
        const auto two = collective_time(kind, Bytes::of(more), shape, algorithm, cost.links());
        REQUIRE(one.has_value() == two.has_value());
        if (!one) continue;
        CHECK(*two >= rounding * *one);
        CHECK(whole.time <= *one);
      }
    }
    for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
      CHECK(cost.message(Bytes::of(more), l) >= rounding * cost.message(Bytes::of(n), l));
    }
  }
}

TEST_CASE("Rates by size slow what they say, and nothing gets faster", "[property][collective]") {
  const std::uint64_t seed = 52;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    ClusterSpec even = cluster;
    for (NetworkLevel& l : even.levels) l.rates.clear();
    const CollectiveCost slow(cluster, {}), fast(even, {});
    const GroupShape shape = group_shape(random_devices(cluster, random), cluster);
    const Bytes n = Bytes::of(std::pow(10.0, uniform(random, 1, 10)));
    for (const Kind kind : kinds) {
      CAPTURE(i, shape.members, static_cast<int>(kind));
      CHECK(slow.choose(kind, n, shape).time >= (1.0 - 1e-12) * fast.choose(kind, n, shape).time);
    }
    for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
      for (const SizedRate& r : cluster.levels[l].rates) {
        const double want = cluster.levels[l].latency.base() + r.message.base() / r.rate.base();
        CHECK(slow.message(r.message, l).base() == Approx(want).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("Switches add where every level that a group crosses says so", "[property][collective]") {
  const std::uint64_t seed = 53;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int with = 0, without = 0;
  for (int i = 0; i < 400; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    const CollectiveCost cost(cluster, {});
    const std::vector<std::uint32_t> devices = random_devices(cluster, random);
    const GroupShape shape = group_shape(devices, cluster);
    if (shape.members < 2) continue;
    bool all = true;
    std::uint32_t unit = 1;
    for (const NetworkLevel& level : cluster.levels) {
      // A level is crossed if two members share a unit of it, but none of the level below.
      bool crossed = false;
      for (const std::uint32_t d : devices) {
        for (const std::uint32_t e : devices) {
          crossed = crossed || (d / unit != e / unit && d / (unit * level.size) == e / (unit * level.size));
        }
      }
      all = all && (!crossed || level.switches.has_value());
      unit *= level.size;
    }
    CAPTURE(i, shape.members);
    for (const Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::reduce, Kind::barrier}) {
      CHECK(collective_time(kind, byte, shape, CollectiveAlgorithm::in_network, cost.links()).has_value() == all);
    }
    CHECK_FALSE(collective_time(Kind::all_gather, byte, shape, CollectiveAlgorithm::in_network, cost.links()));
    // A forced choice is taken where it exists, and is a ring elsewhere.
    const auto own = cost.choose(Kind::all_reduce, byte, shape, CollectiveAlgorithm::in_network);
    CHECK((own.algorithm == CollectiveAlgorithm::in_network) == all);
    (all ? with : without) += 1;
  }
  CHECK(with > 50);
  CHECK(without > 50);
}
