#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "sim/net/messages.hpp"

using namespace orrery;

namespace {

constexpr double a = 1.7e-6;  // latency of a route
constexpr double b = 23.5e9;  // bytes per second of a link

FabricSpec star(std::uint32_t gpus) {
  FabricSpec f;
  f.nodes = gpus;
  f.network = TreeNetwork{{{gpus, 1, {LinkKind::network, Bandwidth::of(b), Seconds::of(a / 2)}}}, false};
  return f;
}

/// Nodes of eight GPUs on one switch each, one NIC per GPU, by rail.
FabricSpec nodes_of_eight(std::uint32_t nodes) {
  FabricSpec f;
  f.nodes = nodes;
  f.node = {.gpus = 8, .nics = 8, .vertices = {}, .wires = {}};
  for (const char* kind : {"gpu", "nic"}) {
    for (int i = 0; i < 8; ++i) f.node.vertices.push_back(kind + std::to_string(i));
  }
  f.node.vertices.push_back("nvswitch");
  for (std::uint32_t i = 0; i < 8; ++i) {
    f.node.wires.push_back({i, 16, {LinkKind::nvlink, Bandwidth::of(10 * b), Seconds::of(a / 4)}});
    f.node.wires.push_back({i, 8 + i, {LinkKind::pcie, Bandwidth::of(2 * b), Seconds::of(0)}});
  }
  f.network = TreeNetwork{{{nodes, 1, {LinkKind::network, Bandwidth::of(b), Seconds::of(a / 2)}},
                           {8, 1, {LinkKind::network, Bandwidth::of(b), Seconds::of(a / 2)}}},
                          true};
  return f;
}

std::vector<std::uint32_t> first(std::uint32_t p) {
  std::vector<std::uint32_t> gpus(p);
  std::iota(gpus.begin(), gpus.end(), 0U);
  return gpus;
}

/// Compares the time of a collective on a star with `seconds`, within 1 ps per step.
void check(std::uint32_t p, const Messages& messages, double seconds, double steps) {
  const JobTimes t = run_jobs(Fabric(star(p)), {{first(p), messages}}, PathRule::by_destination, 1);
  CAPTURE(p, seconds);
  CHECK(std::abs(1e-12 * static_cast<double>(t.ends[0]) - seconds) <= 1e-12 * steps);
}

}  // namespace

TEST_CASE("collectives without other traffic take their closed forms", "[unit][net]") {
  const std::uint32_t p = GENERATE(2U, 4U, 16U, 64U);
  const double n = GENERATE(1e3, 1e8);
  const Bytes payload = Bytes::of(n);
  const double log_p = std::log2(p), q = p;
  check(p, ring_all_reduce_messages(p, payload), 2 * (q - 1) * (a + n / (q * b)), 2 * q);
  check(p, ring_all_gather_messages(p, payload), (q - 1) * (a + n / (q * b)), q);
  check(p, ring_reduce_scatter_messages(p, payload), (q - 1) * (a + n / (q * b)), q);
  check(p, recursive_doubling_messages(p, payload), log_p * (a + n / b), log_p);
  check(p, halving_doubling_messages(p, payload), 2 * log_p * a + 2 * (q - 1) / q * n / b, 2 * log_p);
  check(p, binomial_broadcast_messages(p, payload), log_p * (a + n / b), log_p);
  check(p, binomial_reduce_messages(p, payload), log_p * (a + n / b), log_p);
  check(p, pairwise_all_to_all_messages(p, payload), (q - 1) * (a + n / (q * b)), q);
  for (const std::uint32_t m : {1U, 3U, 20U}) {
    check(p, pipelined_broadcast_messages(p, payload, m), (q - 2 + m) * (a + n / (m * b)), q + m);
  }
}

TEST_CASE("groups of other sizes than powers of two take their closed forms, too", "[unit][net]") {
  const double n = 3e6;
  check(1, ring_all_reduce_messages(1, Bytes::of(n)), 0, 0);
  check(7, ring_all_reduce_messages(7, Bytes::of(n)), 12 * (a + n / (7 * b)), 12);
  check(7, binomial_broadcast_messages(7, Bytes::of(n)), 3 * (a + n / b), 3);
  check(5, binomial_reduce_messages(5, Bytes::of(n)), 3 * (a + n / b), 3);
  check(9, pairwise_all_to_all_messages(9, Bytes::of(n)), 8 * (a + n / (9 * b)), 8);
}

// g GPUs of a node, N nodes: the rings between nodes run side by side, one on each rail.
//   T = 2 (g - 1) (a1 + n / (g b1)) + 2 (N - 1) (a2 + n / (g N b2))
TEST_CASE("a hierarchical all-reduce takes its closed form on rails", "[unit][net]") {
  const std::uint32_t nodes = GENERATE(1U, 2U, 6U);
  const double n = 4e7, a1 = a / 2, b1 = 10 * b, g = 8, count = nodes;
  const Fabric f(nodes_of_eight(nodes));
  const std::uint32_t p = 8 * nodes;
  const Job job{first(p), hierarchical_all_reduce_messages(p, 8, Bytes::of(n))};
  const JobTimes t = run_jobs(f, {job}, PathRule::rail_local, 1);
  const double want = 2 * (g - 1) * (a1 + n / (g * b1)) + 2 * (count - 1) * (a + n / (g * count * b));
  CHECK(std::abs(1e-12 * static_cast<double>(t.ends[0]) - want) <= 1e-12 * (2 * (g - 1) + 2 * (count - 1)));
}

TEST_CASE("two all-reduces over the same GPUs take twice the bytes' time", "[unit][net]") {
  const double n = 1e8, p = 16;
  const Job job{first(16), ring_all_reduce_messages(16, Bytes::of(n))};
  const JobTimes t = run_jobs(Fabric(star(16)), {job, job}, PathRule::by_destination, 1);
  for (const Picoseconds end : t.ends) {
    CHECK(std::abs(1e-12 * static_cast<double>(end) - 2 * (p - 1) * (a + 2 * n / (p * b))) <= 1e-12 * 2 * p);
  }
  // Every host sends 2 (p - 1) / p of the payload, twice.
  CHECK(t.carried[0].base() == Approx(2 * 2 * (p - 1) / p * n));
}

TEST_CASE("rings take the faster way when they follow the rails, not the nodes' first GPUs", "[unit][net]") {
  // Four rings run at once, each over one GPU of every node: on one rail each, or all four GPUs of a ring on odd rails.
  const Fabric f(nodes_of_eight(4));
  std::vector<Job> rails, crossing;
  for (std::uint32_t r = 0; r < 4; ++r) {
    Job job{{}, ring_all_reduce_messages(4, Bytes::of(1e8))};
    for (std::uint32_t n = 0; n < 4; ++n) job.gpus.push_back(8 * n + r);
    rails.push_back(job);
    for (std::uint32_t n = 0; n < 4; ++n) job.gpus[n] = 8 * n + (r + n) % 4;
    crossing.push_back(job);
  }
  // A leaf has one cable to the spine; four nodes' GPUs of one rail must all leave by it.
  const Picoseconds along = run_jobs(f, rails, PathRule::by_destination, 1).ends[0];
  const Picoseconds across = run_jobs(f, crossing, PathRule::by_destination, 1).ends[0];
  CHECK(static_cast<double>(across) / static_cast<double>(along) > 3.5);
  // With NVLink first, every message stays on its receiver's rail again.
  const Picoseconds pxn = run_jobs(f, crossing, PathRule::rail_local, 1).ends[0];
  CHECK(static_cast<double>(pxn) / static_cast<double>(along) < 1.05);
}

// Recursive doubling (2 log2 p a saved) against halving and doubling: with p = 16,
//   4 (a + n / b) < 8 a + 2 (15 / 16) n / b   where   n < 4 a / (4 - 15 / 8) b = 75.2 kB.
TEST_CASE("the fastest all-reduce changes where the closed forms cross", "[unit][net]") {
  const auto rows =
      compare_all_reduces(Fabric(star(16)), first(16), {Bytes::of(75e3), Bytes::of(75.5e3)}, PathRule::by_destination);
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].entries.size() == 4);
  CHECK(rows[0].entries[1].time < rows[0].entries[2].time);
  CHECK(rows[1].entries[1].time > rows[1].entries[2].time);
  // 5 GPUs have as many algorithms; 16 on two nodes also have the hierarchical one.
  CHECK(compare_all_reduces(Fabric(star(5)), first(5), {byte}, PathRule::hashed)[0].entries.size() == 4);
  CHECK(compare_all_reduces(Fabric(nodes_of_eight(2)), first(16), {byte}, PathRule::hashed)[0].entries.size() == 5);
}

// Members beyond a power of two c hand their vector over before, and get the sum after. These are two more messages of
// n bytes.
TEST_CASE("recursive algorithms of any number of members take their closed forms, and sum everything", "[unit][net]") {
  for (std::uint32_t p = 1; p <= 40; ++p) {
    const double n = 1e6, c = std::bit_floor(p), rounds = std::log2(c), folds = c < p ? 2.0 : 0.0;
    const Messages doubling = recursive_doubling_messages(p, Bytes::of(n));
    check(p, doubling, (rounds + folds) * (a + n / b), rounds + folds + 1);
    const Messages halving = halving_doubling_messages(p, Bytes::of(n));
    check(p, halving, 2 * rounds * a + 2 * (c - 1) / c * n / b + folds * (a + n / b), 2 * rounds + folds + 1);
    // Tells whose vectors are in a member's sum, message by message; a step's messages leave before any arrives.
    std::vector<std::set<std::uint32_t>> sum(p);
    for (std::uint32_t i = 0; i < p; ++i) sum[i] = {i};
    for (std::uint32_t step = 0; step < 64; ++step) {
      const auto before = sum;
      for (const CollectiveMessage& m : doubling) {
        if (m.step == step) sum[m.to].insert(before[m.from].begin(), before[m.from].end());
      }
    }
    for (std::uint32_t i = 0; i < p; ++i) CHECK(sum[i].size() == p);
  }
}

TEST_CASE("the crossover table marks the fastest", "[unit][net]") {
  CHECK(crossover_text({{Bytes::of(1024), {{"ring", 30'000'000}, {"recursive doubling", 8'000'000}}},
                        {Bytes::of(1024 * 1024), {{"ring", 70'000'000}, {"recursive doubling", 80'000'000}}}}) ==
        "payload   ring      recursive doubling\n"
        "1.00 KiB  30.0 us   8.00 us*\n"
        "1.00 MiB  70.0 us*  80.0 us\n");
}
