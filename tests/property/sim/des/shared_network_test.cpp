#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration.hpp"
#include "core/record/summarize.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

// The effect of shared links on a step, on random plans. Wide links change nothing, others only ever delay, and the
// bytes are exactly those that the Program sends.

using namespace orrery;

namespace {

/// Nodes of `per_node` GPUs, each with a link of its own to the others and a network port; all `wide` times as wide as
/// those of test::small_cluster.
Fabric fabric_of(std::uint32_t nodes, std::uint32_t per_node, std::uint32_t nics, double wide) {
  FabricSpec spec;
  spec.name = "test";
  spec.nodes = nodes;
  const auto link = [&](LinkKind kind, double bandwidth) {
    return Link{kind, Bandwidth::of(wide * bandwidth), Seconds::of(1e-6)};
  };
  if (per_node > 1) {
    spec.node.gpus = per_node;
    spec.node.nics = nics;
    for (std::uint32_t g = 0; g < per_node; ++g) spec.node.vertices.push_back("gpu" + std::to_string(g));
    for (std::uint32_t n = 0; n < nics; ++n) spec.node.vertices.push_back("nic" + std::to_string(n));
    spec.node.vertices.push_back("switch0");
    for (std::uint32_t v = 0; v < per_node + nics; ++v) {
      spec.node.wires.push_back({v, per_node + nics, link(LinkKind::nvlink, 100e9)});
    }
  }
  if (nodes > 1) {
    TreeNetwork star;
    star.levels = {{nodes * std::max(nics, 1U), 1, link(LinkKind::network, 10e9)}};
    spec.network = star;
  }
  return Fabric(spec);
}

struct Case {
  PlannedRun run;
  Program program;
  std::uint32_t nodes, per_node;
};

Case draw(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  Case c{test::random_run(seed, limits), {}, 1, 1};
  const auto ranks = static_cast<std::uint32_t>(c.run.plan.mesh.size());
  c.per_node = seed % 3 == 0 || ranks % 2 != 0 ? 1 : ranks % 4 == 0 && seed % 3 == 1 ? 4 : 2;
  c.nodes = ranks / c.per_node;
  c.run.cluster = test::small_cluster(c.nodes, c.per_node, 64.0 * gibibyte);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  return c;
}

CostModel costs_of(const Case& c, std::optional<CollectiveAlgorithm> algorithm) {
  return CostModel(*c.run.cluster, Calibration{}, c.run.plan.mesh, c.run.plan.placement, algorithm);
}

Simulation play(const Case& c, const CostModel& costs, const Fabric* fabric) {
  SimulateOptions options;
  options.expand = true;
  options.trace = SimulateOptions::Ranks::all;
  if (fabric != nullptr) options.fabric = FabricRoutes{fabric, PathRule::by_destination, 0};
  return simulate(c.run, c.program, costs, options);
}

constexpr CollectiveAlgorithm algorithms[] = {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
                                              CollectiveAlgorithm::recursive};

}  // namespace

TEST_CASE("on links that are wide enough every op takes its price, to the picosecond", "[property][simulate][net]") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Case c = draw(seed);
    CAPTURE(seed, test::describe(c.run), c.nodes, c.per_node);
    const CostModel costs = costs_of(c, algorithms[seed % 3]);
    const Fabric wide = fabric_of(c.nodes, c.per_node, c.per_node, 1000.0);
    const Simulation shared = play(c, costs, &wide), alone = play(c, costs, nullptr);
    REQUIRE(shared.trace.ranks.size() == alone.trace.ranks.size());
    for (std::size_t r = 0; r < shared.trace.ranks.size(); ++r) {
      CHECK(shared.trace.ranks[r].spans == alone.trace.ranks[r].spans);
    }
  }
}

TEST_CASE("sharing links delays, and lets no op end earlier", "[property][simulate][net]") {
  std::uint32_t slower = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Case c = draw(seed);
    CAPTURE(seed, test::describe(c.run), c.nodes, c.per_node);
    const CostModel costs = costs_of(c, algorithms[seed % 3]);
    // One port for all GPUs of a node, as wide as the cluster says that each has.
    const Fabric narrow = fabric_of(c.nodes, c.per_node, 1, 1.0);
    const Simulation shared = play(c, costs, &narrow), alone = play(c, costs, nullptr);
    for (std::size_t r = 0; r < shared.trace.ranks.size(); ++r) {
      const auto &a = alone.trace.ranks[r].spans, &s = shared.trace.ranks[r].spans;
      REQUIRE(a.size() == s.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (s[i].end < a[i].end) CHECK(s[i].end >= a[i].end);
      }
    }
    slower += shared.report.step_time > alone.report.step_time ? 1 : 0;
  }
  CHECK(slower >= 20);  // plans with several GPUs to a node and traffic between nodes
}

// Rates by size and sums in switches are in prices. Links then carry less at once, or other bytes, and never more than
// a price allows.
TEST_CASE("rates by size and switches that add leave both laws standing", "[property][simulate][net]") {
  std::uint32_t by_switches = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Case c = draw(seed);
    for (NetworkLevel& level : c.run.cluster->levels) {
      if (seed % 4 != 0) level.switches = seed % 4 == 1 ? SwitchSum::sharp : SwitchSum::nvls;
      if (seed % 3 == 0) continue;
      level.rates = {{Bytes::of(256.0), 0.1 * level.bandwidth}, {Bytes::of(65536.0), level.bandwidth}};
    }
    CAPTURE(seed, test::describe(c.run), c.nodes, c.per_node);
    const CostModel costs = costs_of(c, seed % 2 == 0 ? std::nullopt : std::optional(CollectiveAlgorithm::in_network));
    const Fabric wide = fabric_of(c.nodes, c.per_node, c.per_node, 1000.0);
    const Fabric narrow = fabric_of(c.nodes, c.per_node, 1, 1.0);
    const Simulation alone = play(c, costs, nullptr), free = play(c, costs, &wide), shared = play(c, costs, &narrow);
    // The margin is 1 ps for each op of a rank's list: sums of doubles and of whole picoseconds.
    CHECK(estimate(c.run, c.program, costs).step_time.base() <=
          alone.report.step_time.base() + 1e-12 * static_cast<double>(alone.trace.ranks[0].spans.size()));
    for (std::size_t r = 0; r < alone.trace.ranks.size(); ++r) {
      CHECK(free.trace.ranks[r].spans == alone.trace.ranks[r].spans);
      const auto &a = alone.trace.ranks[r].spans, &s = shared.trace.ranks[r].spans;
      REQUIRE(a.size() == s.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (s[i].end < a[i].end) CHECK(s[i].end >= a[i].end);
      }
    }
    const CostModel rings = costs_of(c, CollectiveAlgorithm::ring);
    by_switches += play(c, rings, nullptr).report.step_time > alone.report.step_time ? 1 : 0;
  }
  CHECK(by_switches >= 10);
}

// With one GPU to a node, a node's outgoing bytes are those that its rank sends. The Program's totals are those of ring
// algorithms, which carry whole bytes; shares of a payload that p does not divide differ by less than a byte for each
// member and step.
TEST_CASE("links carry what the Program sends", "[property][simulate][net]") {
  for (std::uint64_t seed = 3; seed <= 360; seed += 3) {
    const Case c = draw(seed);
    REQUIRE(c.per_node == 1);
    CAPTURE(seed, test::describe(c.run), c.nodes);
    const Fabric star = fabric_of(c.nodes, 1, 1, 1.0);
    const Simulation shared = play(c, costs_of(c, CollectiveAlgorithm::ring), &star);
    double up = 0.0;
    for (const LinkLoad& l : shared.links) up += l.carried.base();
    // Every byte crosses two links: up and down.
    CHECK(up == Approx(2.0 * static_cast<double>(program_sent_bytes(c.program))).epsilon(1e-9).margin(1e-6));
  }
}

TEST_CASE("the same step twice gives the same history", "[property][simulate][net]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Case c = draw(seed);
    const Fabric narrow = fabric_of(c.nodes, c.per_node, 1, 0.5);
    const CostModel costs = costs_of(c, std::nullopt);
    const Simulation a = play(c, costs, &narrow), b = play(c, costs, &narrow);
    for (std::size_t r = 0; r < a.trace.ranks.size(); ++r) CHECK(a.trace.ranks[r].spans == b.trace.ranks[r].spans);
    CHECK(a.events == b.events);
  }
}
