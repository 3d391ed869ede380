// Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication:
// theory, practice, and experience", CCPE 19(13), 2007: on a one-port, full
// duplex network of equal links with latency a and bandwidth b,
//
//     all collectives            at least ceil(log2 p) a
//     broadcast, reduce          at least n / b
//     reduce-scatter, all-gather at least (p - 1) / p n / b
//     all-reduce                 at least 2 (p - 1) / p n / b
//
// (all-to-all: every rank receives (p - 1) / p n.)

#include <bit>
#include <catch2/catch.hpp>
#include <random>

#include "sim/cost/collective_cost.hpp"

using namespace orrery;
using Kind = Collective::Kind;

namespace {

constexpr Kind kinds[] = {Kind::all_reduce,     Kind::reduce,     Kind::broadcast, Kind::all_gather,
                          Kind::reduce_scatter, Kind::all_to_all, Kind::permute,   Kind::barrier};
constexpr CollectiveAlgorithm algorithms[] = {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
                                              CollectiveAlgorithm::recursive};

double bandwidth_bound(Kind kind, double n, std::uint32_t p, double b) {
  const double phi = static_cast<double>(p - 1) / p;
  switch (kind) {
    case Kind::all_reduce: return 2 * phi * n / b;
    case Kind::reduce:
    case Kind::permute:
    case Kind::broadcast: return n / b;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_to_all: return phi * n / b;
    case Kind::barrier: return 0;
  }
  return 0;
}

ClusterSpec random_cluster(std::mt19937_64& random) {
  ClusterSpec c;
  const std::size_t levels = random() % 3 + 1;
  double latency = 1e-7 * static_cast<double>(random() % 100 + 1);
  double bandwidth = 1e9 * static_cast<double>(random() % 500 + 1);
  for (std::size_t l = 0; l < levels; ++l) {
    c.levels.push_back(
        {"level", static_cast<std::uint32_t>(random() % 8 + 1), Bandwidth::of(bandwidth), Seconds::of(latency)});
    latency *= static_cast<double>(random() % 10 + 1);
    bandwidth /= static_cast<double>(random() % 10 + 1);
  }
  c.devices_per_node = c.levels[0].size;
  c.nodes = 1;
  for (std::size_t l = 1; l < levels; ++l) c.nodes *= c.levels[l].size;
  return c;
}

/// A random subset of the cluster's devices, at least one.
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

TEST_CASE("No algorithm beats the lower bounds of equal links", "[property][collective]") {
  const std::uint64_t seed = 21;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    const auto p = static_cast<std::uint32_t>(random() % 64) + 2;
    const double a = 1e-7 * static_cast<double>(random() % 100);
    const double b = 1e9 * static_cast<double>(random() % 500 + 1);
    const double n = static_cast<double>(random() % 1000000000);
    const std::vector<LinkCost> links{{Seconds::of(a), Bandwidth::of(b)}};
    ClusterSpec flat;
    flat.levels = {{"flat", p, links[0].bandwidth, links[0].latency}};
    std::vector<std::uint32_t> all(p);
    for (std::uint32_t r = 0; r < p; ++r) all[r] = r;
    const GroupShape shape = group_shape(all, flat);
    const double least_latency = a * static_cast<double>(std::bit_width(p - 1));
    for (const Kind kind : kinds) {
      for (const CollectiveAlgorithm algorithm : algorithms) {
        const auto time = collective_time(kind, Bytes::of(n), shape, algorithm, links);
        if (!time) continue;
        CAPTURE(i, p, a, b, n, static_cast<int>(kind), static_cast<int>(algorithm));
        // In all collectives but a permute, every rank needs data from every other.
        CHECK(time->base() >= (kind == Kind::permute ? a : least_latency) * (1 - 1e-12));
        CHECK(time->base() >= bandwidth_bound(kind, n, p, b) * (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("A collective never gets cheaper with more bytes", "[property][collective]") {
  const std::uint64_t seed = 22;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    const CollectiveCost cost(cluster, {});
    const GroupShape shape = group_shape(random_devices(cluster, random), cluster);
    const double n = static_cast<double>(random() % 1000000000);
    const double more = n * (1.0 + static_cast<double>(random() % 1000) / 100.0);
    for (const Kind kind : kinds) {
      CAPTURE(i, shape.members, n, more, static_cast<int>(kind));
      CHECK(cost.choose(kind, Bytes::of(more), shape).time >= cost.choose(kind, Bytes::of(n), shape).time);
      for (const CollectiveAlgorithm algorithm : algorithms) {
        const auto one = collective_time(kind, Bytes::of(n), shape, algorithm, cost.links());
        const auto two = collective_time(kind, Bytes::of(more), shape, algorithm, cost.links());
        REQUIRE(one.has_value() == two.has_value());
        if (one) CHECK(*two >= *one);
      }
    }
  }
}

TEST_CASE("The choice is the least of the offered algorithms", "[property][collective]") {
  const std::uint64_t seed = 23;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    const CollectiveCost cost(cluster, {});
    const GroupShape shape = group_shape(random_devices(cluster, random), cluster);
    const Bytes n = Bytes::of(static_cast<double>(random() % 100000000));
    for (const Kind kind : kinds) {
      const auto choice = cost.choose(kind, n, shape);
      for (const CollectiveAlgorithm algorithm : algorithms) {
        const auto time = collective_time(kind, n, shape, algorithm, cost.links());
        CAPTURE(i, shape.members, static_cast<int>(kind), static_cast<int>(algorithm));
        if (time) CHECK(choice.time <= *time);
      }
      CHECK(choice.time == *collective_time(kind, n, shape, choice.algorithm, cost.links()));
    }
  }
}

// Every level's cut must be passed. In a unit with few members, everything that they need from outside comes over their
// own links.
TEST_CASE("No all-gather beats the narrowest cut", "[property][collective]") {
  const std::uint64_t seed = 24;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    const std::vector<std::uint32_t> devices = random_devices(cluster, random);
    const GroupShape shape = group_shape(devices, cluster);
    if (shape.members < 2) continue;
    const double n = static_cast<double>(random() % 1000000000);
    const CollectiveCost cost(cluster, {});
    std::uint32_t unit = 1;
    for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
      // Members in the unit (below level l) of the first device; each has one link of level l.
      std::uint32_t inside = 0;
      for (const std::uint32_t d : devices) inside += d / unit == devices[0] / unit ? 1U : 0U;
      const double share = n * (shape.members - inside) / shape.members;
      double fastest = 0.0;  // links of this level and further out may carry it
      for (std::size_t k = l; k < cluster.levels.size(); ++k) {
        fastest = std::max(fastest, cluster.levels[k].bandwidth.base());
      }
      const double bound = share / (inside * fastest);
      for (const CollectiveAlgorithm algorithm : algorithms) {
        const auto time = collective_time(Kind::all_gather, Bytes::of(n), shape, algorithm, cost.links());
        CAPTURE(i, l, inside, static_cast<int>(algorithm));
        if (time) CHECK(time->base() >= bound * (1 - 1e-12));
      }
      unit *= cluster.levels[l].size;
    }
  }
}
