// Collectives emulated step by step. Every rank holds real numbers, every message is counted and timed, and the result
// must be the collective's.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

#include "sim/cost/collective_cost.hpp"

using namespace orrery;

namespace {

// The emulation adds the same terms one by one, with a rounding each.
bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b) + 1e-18; }

/// A group that fills `sizes[l]` units at every level l, with random links
/// that get slower outwards, and the level over which two members meet.
struct LevelGroup {
  std::vector<std::uint32_t> sizes;
  std::vector<LinkCost> links;
  GroupShape shape;

  [[nodiscard]] std::uint32_t members() const { return shape.members; }
  [[nodiscard]] std::size_t level(std::uint32_t a, std::uint32_t b) const {
    for (std::size_t l = 0; l < sizes.size(); ++l) {
      a /= sizes[l];
      b /= sizes[l];
      if (a == b) return l;
    }
    return sizes.size();
  }
};

LevelGroup random_group(std::mt19937_64& random, bool powers_of_two, std::size_t most_levels) {
  LevelGroup g;
  const std::size_t levels = random() % most_levels + 1;
  double latency = 1e-6;
  double bandwidth = 4e11;
  ClusterSpec cluster;
  std::uint32_t devices = 1;
  for (std::size_t l = 0; l < levels; ++l) {
    const auto r = static_cast<std::uint32_t>(random());
    g.sizes.push_back(powers_of_two ? 1U << (r % 4) : r % 6 + 1);
    latency *= 1.0 + static_cast<double>(random() % 1000) / 200.0;
    bandwidth /= 1.0 + static_cast<double>(random() % 1000) / 200.0;
    g.links.push_back({Seconds::of(latency), Bandwidth::of(bandwidth)});
    cluster.levels.push_back({"level", g.sizes[l], g.links[l].bandwidth, g.links[l].latency});
    devices *= g.sizes[l];
  }
  std::vector<std::uint32_t> all(devices);
  for (std::uint32_t d = 0; d < devices; ++d) all[d] = d;
  cluster.nodes = 1;
  cluster.devices_per_node = devices;
  g.shape = group_shape(all, cluster);
  return g;
}

/// One ring of asynchronous ranks: a send starts when its chunk is there and the sender's last transmission is over; it
/// arrives a latency after it left. It runs reduce-scatter, then (for all-reduce) all-gather. It checks the sums.
double emulate_ring(std::uint32_t p, double chunk_bytes, const std::vector<LinkCost>& hop, bool all_reduce) {
  // value[i][c] tells whose contributions rank i has added into chunk c, as a sum of distinct powers.
  std::vector<std::vector<std::uint64_t>> value(p, std::vector<std::uint64_t>(p));
  for (std::uint32_t i = 0; i < p; ++i) {
    for (std::uint32_t c = 0; c < p; ++c) value[i][c] = std::uint64_t{1} << i;
  }
  std::vector<double> arrived(p, 0.0);  // when rank i got the chunk that it sends next
  std::vector<double> sent(p, 0.0);     // when its last transmission ended
  const std::uint32_t steps = (all_reduce ? 2 : 1) * (p - 1);
  for (std::uint32_t s = 0; s < steps; ++s) {
    std::vector<double> next(p);
    const auto before = value;
    for (std::uint32_t i = 0; i < p; ++i) {
      // Rank i starts with chunk i - 1, so that chunk i is complete at rank i after p - 1 steps.
      const std::uint32_t chunk = (i + 2 * p - 1 - s % p) % p;
      const std::uint32_t to = (i + 1) % p;
      const double start = std::max(arrived[i], sent[i]);
      sent[i] = start + chunk_bytes / hop[i].bandwidth.base();
      next[to] = sent[i] + hop[i].latency.base();
      value[to][chunk] = s < p - 1 ? before[to][chunk] + before[i][chunk] : before[i][chunk];
    }
    arrived = next;
  }
  const std::uint64_t sum = (std::uint64_t{1} << p) - 1;
  for (std::uint32_t i = 0; i < p; ++i) {
    REQUIRE(value[i][i] == sum);
    if (all_reduce) REQUIRE(std::count(value[i].begin(), value[i].end(), sum) == p);
  }
  return *std::max_element(arrived.begin(), arrived.end());
}

}  // namespace

TEST_CASE("On equal links the ring formula is the emulated ring", "[property][ring]") {
  const std::uint64_t seed = 11;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto p = static_cast<std::uint32_t>(random() % 39) + 2;
    const LinkCost link{Seconds::of(1e-9 * static_cast<double>(random() % 100000)),
                        Bandwidth::of(1e9 + static_cast<double>(random() % 1000000) * 1e6)};
    const double chunk = static_cast<double>(random() % 10000000);
    ClusterSpec flat;
    flat.levels = {{"flat", p, link.bandwidth, link.latency}};
    std::vector<std::uint32_t> all(p);
    for (std::uint32_t d = 0; d < p; ++d) all[d] = d;
    const GroupShape shape = group_shape(all, flat);
    const RingPath path = ring_path(shape, std::vector{link});
    const std::vector<LinkCost> hops(p, link);
    CAPTURE(p, chunk, link.latency.base(), link.bandwidth.base());
    const Bytes payload = Bytes::of(chunk * p);
    CHECK(close(ring_half(payload, p, path).base(), emulate_ring(p, chunk, hops, false)));
    CHECK(close(ring_all_reduce(payload, p, path).base(), emulate_ring(p, chunk, hops, true)));
  }
}

// The formula adds the latency of the slowest p - 1 hops to the time of the narrowest hop; the asynchronous ring
// overlaps the two in part. It takes at least the narrowest hop's time and at least each chunk's way round, and never
// more than the formula.
TEST_CASE("On unequal levels the ring formula bounds the emulated ring closely", "[property][ring]") {
  const std::uint64_t seed = 12;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const LevelGroup g = random_group(random, false, 3);
    const std::uint32_t p = g.members();
    if (p < 2 || p > 60) continue;
    const double chunk = static_cast<double>(random() % 10000000);
    std::vector<LinkCost> hops;
    for (std::uint32_t r = 0; r < p; ++r) {
      // Several rings, one per member of the unit that is left, share the way out.
      const std::size_t l = g.level(r, (r + 1) % p);
      std::uint32_t rings = 1;
      for (std::size_t k = 0; k < l; ++k) rings *= g.sizes[k];
      hops.push_back({g.links[l].latency, static_cast<double>(rings) * g.links[l].bandwidth});
    }
    const RingPath path = ring_path(g.shape, g.links);
    const double formula = ring_half(Bytes::of(chunk * p), p, path).base();
    const double emulated = emulate_ring(p, chunk, hops, false);
    CAPTURE(i, p, chunk);
    CHECK(emulated <= formula * (1 + 1e-9));
    CHECK(emulated >= (formula - path.latency.base()) * (1 - 1e-9));
    CHECK(close(emulate_ring(p, 0.0, hops, false), path.latency.base()));  // exact without bytes
  }
}

TEST_CASE("Recursive all-gather by levels moves what the formula charges", "[property][recursive]") {
  const std::uint64_t seed = 13;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const LevelGroup g = random_group(random, i % 2 == 0, 3);
    const std::uint32_t p = g.members();
    const double block = static_cast<double>(random() % 1000000 + 1);
    CAPTURE(i, p, block);
    std::vector<std::set<std::uint32_t>> held(p);
    for (std::uint32_t r = 0; r < p; ++r) held[r] = {r};
    // Goes from the outermost level inwards. Among the q members that differ only at this level there are rounds of
    // doubling distance; the last sends what is missing.
    double time = 0.0;
    for (std::size_t l = g.sizes.size(); l-- > 0;) {
      std::uint32_t stride = 1;
      for (std::size_t k = 0; k < l; ++k) stride *= g.sizes[k];
      const std::uint32_t q = g.sizes[l];
      // parts[r] has in order of distance the sets that came from r, r + 1, ... along this level.
      std::vector<std::vector<std::set<std::uint32_t>>> parts(p);
      for (std::uint32_t r = 0; r < p; ++r) parts[r] = {held[r]};
      for (std::uint32_t distance = 1; distance < q; distance *= 2) {
        const std::uint32_t sends = std::min(distance, q - distance);
        auto next = parts;
        double bytes = 0.0;  // the same for every rank
        for (std::uint32_t r = 0; r < p; ++r) {
          const std::uint32_t at = r / stride % q;
          const std::uint32_t from = r - at * stride + (at + distance) % q * stride;
          bytes = 0.0;
          for (std::uint32_t k = 0; k < sends; ++k) {
            next[r].push_back(parts[from][k]);
            bytes += block * static_cast<double>(parts[from][k].size());
          }
        }
        time += message_time(Bytes::of(bytes), g.links[l]).base();
        parts = next;
      }
      for (std::uint32_t r = 0; r < p; ++r) {
        for (const auto& part : parts[r]) held[r].insert(part.begin(), part.end());
      }
    }
    for (std::uint32_t r = 0; r < p; ++r) REQUIRE(held[r].size() == p);
    REQUIRE(is_uniform(g.shape));
    CHECK(close(recursive_half(Bytes::of(block * p), g.shape, g.links).base(), time));
  }
}

TEST_CASE("Recursive doubling all-reduce by levels moves what the formula charges", "[property][recursive]") {
  const std::uint64_t seed = 14;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    const LevelGroup g = random_group(random, i % 2 == 0, 3);
    const std::uint32_t p = g.members();
    const double bytes = static_cast<double>(random() % 1000000 + 1);
    CAPTURE(i, p, bytes);
    std::vector<std::set<std::uint32_t>> summed(p);
    for (std::uint32_t r = 0; r < p; ++r) summed[r] = {r};
    double time = 0.0;
    std::uint32_t stride = 1;
    for (std::size_t l = 0; l < g.sizes.size(); stride *= g.sizes[l++]) {
      const std::uint32_t q = g.sizes[l];
      std::uint32_t core = 1;
      while (2 * core <= q) core *= 2;
      const std::uint32_t extra = q - core;
      // The partner of member r along this level: the one with coordinate `at` there.
      const auto along = [&](std::uint32_t r, std::uint32_t at) { return r - r / stride % q * stride + at * stride; };
      const auto add = [&](std::vector<std::set<std::uint32_t>>& into, std::uint32_t r, std::uint32_t from) {
        for (const std::uint32_t x : summed[from]) REQUIRE(into[r].insert(x).second);  // nothing is added twice
      };
      const auto number = [&](std::uint32_t i_core) { return i_core < extra ? 2 * i_core + 1 : i_core + extra; };
      const double message = message_time(Bytes::of(bytes), g.links[l]).base();
      auto next = summed;
      for (std::uint32_t r = 0; r < p; ++r) {
        const std::uint32_t at = r / stride % q;
        if (at < 2 * extra && at % 2 == 1) add(next, r, along(r, at - 1));
      }
      if (extra > 0) time += message;
      summed = next;
      for (std::uint32_t distance = 1; distance < core; distance *= 2, time += message) {
        next = summed;
        for (std::uint32_t k = 0; k < core; ++k) {
          for (std::uint32_t r = 0; r < p; ++r) {
            if (r / stride % q == number(k)) add(next, r, along(r, number(k ^ distance)));
          }
        }
        summed = next;
      }
      for (std::uint32_t r = 0; r < p; ++r) {
        const std::uint32_t at = r / stride % q;
        if (at < 2 * extra && at % 2 == 0) summed[r] = summed[along(r, at + 1)];
      }
      if (extra > 0) time += message;
    }
    for (std::uint32_t r = 0; r < p; ++r) REQUIRE(summed[r].size() == p);
    CHECK(close(recursive_doubling_all_reduce(Bytes::of(bytes), g.shape, g.links).base(), time));
  }
}

TEST_CASE("All-to-all by pairs moves what the formula charges", "[property][all-to-all]") {
  const std::uint64_t seed = 15;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    const LevelGroup g = random_group(random, false, 3);
    const std::uint32_t p = g.members();
    const double block = static_cast<double>(random() % 1000000 + 1);
    double worst = 0.0;
    for (std::uint32_t r = 0; r < p; ++r) {
      double time = 0.0;
      for (std::uint32_t peer = 0; peer < p; ++peer) {
        if (peer != r) time += message_time(Bytes::of(block), g.links[g.level(r, peer)]).base();
      }
      worst = std::max(worst, time);
    }
    CAPTURE(i, p);
    CHECK(close(pairwise_all_to_all(Bytes::of(block * p), g.shape, g.links).base(), worst));
  }
}

TEST_CASE("All-to-all by rounds delivers every block with the charged bytes", "[property][all-to-all]") {
  const LinkCost link{microsecond, gigabyte_per_second};
  for (std::uint32_t p = 2; p <= 40; ++p) {
    CAPTURE(p);
    // A block travels its distance bit by bit; position[d] says how far blocks of distance d have come.
    std::vector<std::uint32_t> position(p, 0);
    double time = 0.0;
    const double block = 1000.0;
    for (std::uint32_t bit = 1; bit < p; bit *= 2) {
      double bytes = 0.0;
      for (std::uint32_t d = 0; d < p; ++d) {
        if ((d & bit) == 0) continue;
        position[d] += bit;
        bytes += block;
      }
      time += message_time(Bytes::of(bytes), link).base();
    }
    for (std::uint32_t d = 0; d < p; ++d) REQUIRE(position[d] == d);
    ClusterSpec flat;
    flat.levels = {{"flat", p, link.bandwidth, link.latency}};
    std::vector<std::uint32_t> all(p);
    for (std::uint32_t r = 0; r < p; ++r) all[r] = r;
    CHECK(close(bruck_all_to_all(Bytes::of(block * p), group_shape(all, flat), std::vector{link}).base(), time));
  }
}

// Two binary trees over the same ranks, in-order, the second shifted by one:
// even numbers are leaves of one and inner nodes of the other.  With half of
// the vector on each tree, the busiest port carries 2 n in reduce and broadcast
// together: the 2 n / b of the formula.
TEST_CASE("Two trees load no port with more than twice the vector", "[property][tree]") {
  for (std::uint32_t p = 2; p <= 64; p *= 2) {
    CAPTURE(p);
    std::vector<double> out(p, 0.0);
    std::vector<double> in(p, 0.0);
    for (std::uint32_t tree = 0; tree < 2; ++tree) {
      // In-order tree on 1 .. p - 1: the parent of x with lowest set bit l is x - l or x + l, whichever has lowest bit
      // 2 l.
      const auto rank = [&](std::uint32_t x) { return (x + tree) % p; };
      const std::uint32_t root = p / 2;
      const auto edge = [&](std::uint32_t child, std::uint32_t parent) {
        out[rank(child)] += 0.5;  // reduce: up
        in[rank(parent)] += 0.5;
        out[rank(parent)] += 0.5;  // broadcast: down
        in[rank(child)] += 0.5;
      };
      for (std::uint32_t x = 1; x < p; ++x) {
        if (x == root) continue;
        const std::uint32_t low = x & (~x + 1U);
        const std::uint32_t parent = (x & (low << 1)) != 0 ? x - low : x + low;
        edge(x, parent);
      }
      edge(0, root);  // the rank that is in neither half hangs below the root
    }
    for (std::uint32_t r = 0; r < p; ++r) {
      CHECK(out[r] <= 2.0);
      CHECK(in[r] <= 2.0);
    }
    CHECK(*std::max_element(in.begin(), in.end()) > 0.0);
  }
}
