#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>

#include "core/base/random.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/calibration.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/net/cluster_fabric.hpp"
#include "tests/support/random_fabric.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

// Clusters of several kinds of nodes. Every rank computes at the pace of its own device, and ops that ranks do together
// go at the pace of the slowest, in estimates and simulations alike.

using namespace orrery;

namespace {

struct Case {
  PlannedRun run;
  Program program;
  Calibration calibration;

  [[nodiscard]] CostModel costs() const {
    return {*run.cluster, calibration, run.plan.mesh, run.plan.placement, run.plan.collective_algorithm};
  }
  [[nodiscard]] Simulation play(SimulateOptions options = {}) const {
    options.trace = SimulateOptions::Ranks::all;
    return simulate(run, program, costs(), options);
  }
};

/// Slower by at least the factor for compute and memory, and for links.
OtherNodes slower(const ClusterSpec& c, std::uint32_t first, std::uint32_t count, double pace, double links) {
  OtherNodes other{first, count, c.device, {}};
  other.device.name = "slow";
  for (auto& [precision, rate] : other.device.peak) rate = pace * rate;
  other.device.memory_bandwidth = pace * other.device.memory_bandwidth;
  for (const NetworkLevel& level : c.levels) other.bandwidths.push_back(links * level.bandwidth);
  return other;
}

/// A random plan on two to five nodes or more, where one to three ranges of nodes are others. With `pace` below 1 these
/// are slower at everything.
Case draw(std::uint64_t seed, bool only_slower, bool plain = false) {
  test::RandomRunLimits limits;
  limits.max_ranks = 16;
  limits.placement = !plain && seed % 4 == 0;
  limits.plain = plain;
  for (std::uint64_t again = 0;; ++again) {
    Case c{test::random_run(seed + 1000 * again, limits), {}, {}};
    const auto ranks = static_cast<std::uint32_t>(c.run.plan.mesh.size());
    const std::uint32_t per_node = ranks % 4 == 0 && seed % 3 == 0 ? 4 : ranks % 2 == 0 && seed % 3 == 1 ? 2 : 1;
    const std::uint32_t nodes = ranks / per_node;
    if (nodes < 2) continue;
    c.run.cluster = test::small_cluster(nodes, per_node, 64.0 * gibibyte);
    c.run.cluster->price_per_gpu_hour = std::nullopt;
    std::uint32_t next = 0;
    for (std::uint64_t i = 0; i < 3 && next < nodes; ++i) {
      const auto first = next + static_cast<std::uint32_t>(random_bits(seed, 7, i) % (nodes - next));
      const auto count = 1 + static_cast<std::uint32_t>(random_bits(seed, 8, i) % (nodes - first));
      if (first == 0 && count == nodes) continue;
      const double pace = (only_slower ? 0.3 : 0.6) + 0.7 * random_uniform(seed, 9, i);
      const double links = (only_slower ? 0.3 : 0.6) + 0.7 * random_uniform(seed, 10, i);
      c.run.cluster->other_nodes.push_back(slower(*c.run.cluster, first, count, pace, links));
      // A device that is slow at one thing may be fast at another.
      if (!only_slower && seed % 2 == 0) {
        DeviceSpec& d = c.run.cluster->other_nodes.back().device;
        d.memory_bandwidth = (1.0 / pace) * d.memory_bandwidth;
      }
      next = first + count;
    }
    std::uint32_t others = 0;
    for (const OtherNodes& o : c.run.cluster->other_nodes) others += o.count;
    if (others == 0 || others == nodes) continue;
    c.calibration.others.resize(c.run.cluster->other_nodes.size());
    c.program = lower(c.run.model, c.run.workload, c.run.plan);
    return c;
  }
}

std::int64_t apart(const Trace& a, const Trace& b) {
  std::int64_t most = 0;
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    for (std::size_t i = 0; i < a.ranks[r].spans.size(); ++i) {
      const Span &x = a.ranks[r].spans[i], &y = b.ranks[r].spans[i];
      most = std::max({most, std::abs(x.start - y.start), std::abs(x.end - y.end)});
    }
  }
  return most;
}

}  // namespace

TEST_CASE("estimate <= simulate, and folded equals expanded, on nodes of several kinds", "[property][sim]") {
  std::uint32_t parted = 0, closer = 0;
  for (std::uint64_t seed = 1; seed <= 160; ++seed) {
    const Case c = draw(seed, false, seed % 2 == 1);
    CAPTURE(seed, test::describe(c.run), devices_text(*c.run.cluster));
    const Report estimated = estimate(c.run, c.program, c.costs());
    const Simulation folded = c.play();
    SimulateOptions options;
    options.expand = true;
    const Simulation expanded = c.play(options);
    CHECK(apart(folded.trace, expanded.trace) == 0);
    CHECK(estimated.step_time <= folded.report.step_time);
    parted += folded.rank_classes > c.program.classes.size() ? 1 : 0;
    closer += estimated.step_time.base() > 0.98 * folded.report.step_time.base() ? 1 : 0;
  }
  CHECK(parted > 40);
  CHECK(closer > 120);  // the slowest column of ranks decides in nearly all cases
}

TEST_CASE("over shared links folded equals expanded too, on nodes of several kinds", "[property][sim]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Case c = draw(seed, false);
    CAPTURE(seed, test::describe(c.run), devices_text(*c.run.cluster));
    const ClusterSpec& cluster = *c.run.cluster;
    const Fabric fabric = seed % 3 == 0 ? test::random_fabric(seed, cluster.nodes, cluster.devices_per_node)
                                        : Fabric(cluster_fabric(cluster));
    SimulateOptions options;
    options.fabric = FabricRoutes{&fabric, PathRule::by_destination, seed};
    const Simulation folded = c.play(options);
    options.expand = true;
    const Simulation expanded = c.play(options);
    CHECK(apart(folded.trace, expanded.trace) <= 4);  // as for equal nodes (folding_test.cpp)
    // Links only delay.
    const Seconds alone = c.play().report.step_time;
    CHECK(folded.report.step_time.base() >= alone.base() * (1.0 - 1e-9));
  }
}

TEST_CASE("other nodes that are no different change nothing", "[property][sim]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Case c = draw(seed, true);
    CAPTURE(seed, test::describe(c.run));
    for (OtherNodes& o : c.run.cluster->other_nodes) {
      o.device = c.run.cluster->device;
      if (seed % 2 == 0) o.bandwidths.clear();
      for (std::size_t l = 0; l < o.bandwidths.size(); ++l) o.bandwidths[l] = c.run.cluster->levels[l].bandwidth;
    }
    const Simulation mixed = c.play();
    const Seconds estimated = estimate(c.run, c.program, c.costs()).step_time;
    c.run.cluster->other_nodes.clear();
    c.calibration.others.clear();
    const Simulation equal = c.play();
    // Where one group lies unlike the others, collectives of equal nodes cost what the slowest group of all pays; kinds
    // that never meet in a group pay separately.
    CHECK(mixed.report.step_time <= equal.report.step_time);
    if (is_aligned(c.run.plan.mesh, *c.run.cluster) && c.run.plan.placement.empty()) {
      CHECK(mixed.history_hash == equal.history_hash);
      CHECK(estimated == estimate(c.run, c.program, c.costs()).step_time);
    }
  }
}

TEST_CASE("a cluster of fast and slow nodes lies between one of fast nodes and one of slow ones", "[property][sim]") {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    Case c = draw(seed, true);
    c.run.cluster->other_nodes.resize(1);
    c.calibration.others.resize(1);
    CAPTURE(seed, test::describe(c.run));
    const Simulation mixed = c.play();
    const Seconds estimated = estimate(c.run, c.program, c.costs()).step_time;
    Case slow = c, fast = c;
    slow.run.cluster = equal_nodes(*c.run.cluster, 1, 2);
    fast.run.cluster = equal_nodes(*c.run.cluster, 0, 1);
    slow.calibration.others.clear();
    fast.calibration.others.clear();
    CHECK(estimated <= estimate(slow.run, slow.program, slow.costs()).step_time);
    CHECK(mixed.report.step_time <= slow.play().report.step_time);
    if (!is_aligned(c.run.plan.mesh, *fast.run.cluster) || !c.run.plan.placement.empty()) continue;
    CHECK(estimated >= estimate(fast.run, fast.program, fast.costs()).step_time);
    CHECK(mixed.report.step_time >= fast.play().report.step_time);
  }
}

// Four stages, one to a node; the two last nodes are slower at all things. Stages do nothing together but hand over
// activations, so each op takes the time that it takes on equal nodes of its own kind.
TEST_CASE("stages on nodes of their own kind take what they take there", "[property][sim]") {
  Case c;
  c.run.model = test::tiny_llama({.layers = 4, .hidden = 32, .heads = 4, .vocabulary = 64, .tied = false});
  c.run.workload.global_batch = 8;
  c.run.workload.sequence_length = 16;
  c.run.plan.mesh = Mesh{{{Axis::pipeline, 4}, {Axis::tensor, 2}}};
  c.run.plan.stage_layers = std::vector<std::uint32_t>(4, 1);
  c.run.plan.attention = AttentionKernel::flash;
  c.run.plan.gradient_bucket = 8.0 * kibibyte;
  c.run.plan.overlap_gradients = true;
  c.run.cluster = test::small_cluster(4, 2, 64.0 * gibibyte);
  c.run.cluster->other_nodes = {slower(*c.run.cluster, 2, 2, 0.5, 0.25)};
  c.calibration.others.resize(1);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  const auto equal = [&](std::uint32_t kind) {
    Case e = c;
    e.run.cluster = equal_nodes(*c.run.cluster, kind, static_cast<NodeKinds>(1U << kind));
    e.calibration.others.clear();
    return e.play().trace;
  };
  const Trace mixed = c.play().trace, fast = equal(0), slow = equal(1);
  const auto took = [](const Trace& t, std::size_t rank, std::size_t op) {
    return t.ranks[rank].spans[op].end - t.ranks[rank].spans[op].start;
  };
  std::size_t collectives = 0, kernels = 0;
  for (std::uint32_t r = 0; r < 8; ++r) {
    const Trace& own = r < 4 ? fast : slow;
    for_each_op(c.program, c.program.classes[class_of(c.program, Rank{r})].step, [&](const OpRun& run) {
      const bool collective = std::holds_alternative<Collective>(run.op->action);
      // Norms of gradients are summed over all stages, at the pace of the slow ones.
      const bool everyone =
          collective && group_size(c.program[std::get<Collective>(run.op->action).group], c.program.mesh) > 2;
      if (std::holds_alternative<Exchange>(run.op->action)) return;
      CHECK(took(mixed, r, index(run.id)) == took(everyone ? slow : own, r, index(run.id)));
      ++(collective ? collectives : kernels);
    });
  }
  CHECK(collectives > 100);
  CHECK(kernels > 500);
}

// One node of two is twice as slow at compute and has a quarter of the network. Data parallelism goes in lock-step, so
// the step is that of two such nodes. A pipeline's work on the fast node's ranks makes no rank wait.
TEST_CASE("the slowest node decides where all go in lock-step", "[property][sim]") {
  Case c;
  c.run.model = test::tiny_llama({.layers = 4, .hidden = 32, .heads = 4, .vocabulary = 64});
  c.run.workload.global_batch = 8;
  c.run.workload.sequence_length = 16;
  c.run.plan.mesh = Mesh{{{Axis::data, 8}}};
  c.run.plan.stage_layers = {4};
  c.run.plan.attention = AttentionKernel::flash;
  c.run.plan.gradient_bucket = 8.0 * kibibyte;
  c.run.plan.overlap_gradients = true;
  c.run.cluster = test::small_cluster(2, 4, 64.0 * gibibyte);
  c.run.cluster->other_nodes = {slower(*c.run.cluster, 1, 1, 0.5, 0.25)};
  c.calibration.others.resize(1);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  Case slow = c;
  slow.run.cluster = equal_nodes(*c.run.cluster, 1, 2);
  slow.calibration.others.clear();
  CHECK(c.play().report.step_time == slow.play().report.step_time);
  CHECK(estimate(c.run, c.program, c.costs()).step_time == slow.play().report.step_time);
  // Half the devices have half the peak, so the sum is 0.75 of the eight's.
  CHECK(total_peak(*c.run.cluster, Precision::bf16, 8)->base() == Approx(8 * 0.75 * 20e12));
}

// A ring over nodes, one of which has a quarter of the cables, on the links that the cluster implies.
TEST_CASE("on the links of a cluster of several kinds what is alone takes its price", "[property][sim][net]") {
  for (const std::uint32_t per_node : {1U, 4U}) {
    Case c;
    c.run.model = test::tiny_llama({.layers = 4, .hidden = 32, .heads = 4, .vocabulary = 64});
    c.run.workload.global_batch = 16;
    c.run.workload.sequence_length = 16;
    c.run.plan.mesh = Mesh{{{Axis::data, 4 * per_node}}};
    c.run.plan.stage_layers = {4};
    c.run.plan.attention = AttentionKernel::flash;
    c.run.plan.gradient_bucket = 8.0 * kibibyte;
    c.run.plan.overlap_gradients = true;
    c.run.plan.collective_algorithm = CollectiveAlgorithm::ring;
    c.run.cluster = test::small_cluster(4, per_node, 64.0 * gibibyte);
    c.run.cluster->other_nodes = {slower(*c.run.cluster, 1, 1, 0.5, 0.25)};
    c.calibration.others.resize(1);
    c.program = lower(c.run.model, c.run.workload, c.run.plan);
    const FabricSpec spec = cluster_fabric(*c.run.cluster);
    REQUIRE(spec.other_nodes.size() == 1);
    CHECK(spec.other_nodes[0].first == 1);
    CHECK(spec.other_nodes[0].share[static_cast<std::size_t>(LinkKind::network)] == 0.25);
    const Fabric fabric(spec);
    // The NIC of node 1 has a quarter of the bandwidth of node 0's, in both directions.
    const auto network_link = [&](std::uint32_t node) {
      return fabric.link(fabric.links_named(fmt::format("node {} nic 0 -> leaf 0", node)).front()).bandwidth;
    };
    CHECK(network_link(1) == 0.25 * network_link(0));
    SimulateOptions options;
    options.fabric = FabricRoutes{&fabric, PathRule::by_destination, 0};
    CHECK(c.play(options).report.step_time == c.play().report.step_time);
    Diagnostics wrong;
    const auto again = parse_fabric(write_fabric(spec), "again.toml", wrong);
    INFO(render(wrong));
    REQUIRE(again);
    CHECK(again->other_nodes == spec.other_nodes);
  }
}
