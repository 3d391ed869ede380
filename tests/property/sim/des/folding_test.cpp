#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

#include "core/base/random.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/calibration.hpp"
#include "sim/des/simulate.hpp"
#include "tests/support/folded_experts.hpp"
#include "tests/support/random_fabric.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

// A step folded over ranks that behave alike is the step of every rank. On random plans, fabrics, routes and
// stragglers, ops come in the same order, at the same times except for rounding.

using namespace orrery;

namespace {

struct Case {
  PlannedRun run;
  Program program;
  std::optional<Fabric> fabric;
  SimulateOptions options;
};

Case draw(std::uint64_t seed, std::uint32_t max_ranks) {
  test::RandomRunLimits limits;
  limits.max_ranks = max_ranks;
  limits.placement = seed % 4 == 0;
  Case c{test::random_run(seed, limits), {}, {}, {}};
  if (PlannedRun folded = c.run; test::fold_experts(folded, seed)) c.run = std::move(folded);
  const auto ranks = static_cast<std::uint32_t>(c.run.plan.mesh.size());
  std::uint32_t per_node = 1;
  for (const std::uint32_t n : {2U, 4U}) {
    if (ranks % n == 0 && (seed / 3) % 3 >= n / 2) per_node = n;
  }
  c.run.cluster = test::small_cluster(ranks / per_node, per_node, 64.0 * gibibyte);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  if (seed % 5 != 0) c.fabric = test::random_fabric(seed, ranks / per_node, per_node);
  if (seed % 11 == 0) c.options.slow = {{Rank{ranks - 1}, 1.3}, {Rank{static_cast<std::uint32_t>(seed) % ranks}, 1.2}};
  if (seed % 5 == 0 || seed % 7 == 0)
    c.options.stragglers = Stragglers{seed, 1 + static_cast<std::uint32_t>(seed % 2), 1.7};
  return c;
}

/// `seed` decides the routes, and the rule that they follow.
Simulation play(const Case& c, bool expand, std::uint64_t seed) {
  const CostModel costs(*c.run.cluster, Calibration{}, c.run.plan.mesh, c.run.plan.placement, std::nullopt);
  SimulateOptions options = c.options;
  options.expand = expand;
  options.trace = SimulateOptions::Ranks::all;
  constexpr PathRule rules[] = {PathRule::by_destination, PathRule::hashed, PathRule::rail_local};
  if (c.fabric) options.fabric = FabricRoutes{&*c.fabric, rules[seed % 3], seed};
  return simulate(c.run, c.program, costs, options);
}

/// Ops by their starts; among those of one instant the first in the list comes first.
std::vector<std::uint32_t> order_of(const RankTrace& trace) {
  std::vector<std::uint32_t> order(trace.spans.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return trace.spans[a].start < trace.spans[b].start; });
  return order;
}

/// Compares a folded with an expanded step; returns the two.
std::pair<Simulation, Simulation> compare(const Case& c, std::uint64_t seed) {
  Simulation folded = play(c, false, seed), expanded = play(c, true, seed);
  REQUIRE(folded.trace.ranks.size() == expanded.trace.ranks.size());
  CHECK(expanded.rank_classes == c.program.mesh.size());
  for (std::size_t r = 0; r < folded.trace.ranks.size(); ++r) {
    const auto &f = folded.trace.ranks[r].spans, &e = expanded.trace.ranks[r].spans;
    REQUIRE(f.size() == e.size());
    std::int64_t apart = 0;
    for (std::size_t i = 0; i < f.size(); ++i) {
      apart = std::max({apart, std::abs(f[i].start - e[i].start), std::abs(f[i].end - e[i].end)});
    }
    // The law allows 1 ps for each op of depth, and even one layer is deeper than this; 1 ps is the most that was seen.
    CAPTURE(r);
    CHECK(apart <= 4);
    CHECK(order_of(folded.trace.ranks[r]) == order_of(expanded.trace.ranks[r]));
  }
  // Means over ranks, and bytes by link, are sums in another order.
  CHECK(folded.report.compute.base() == Approx(expanded.report.compute.base()).epsilon(1e-12));
  CHECK(folded.report.exposed_communication.base() ==
        Approx(expanded.report.exposed_communication.base()).epsilon(1e-9).margin(1e-12));
  REQUIRE(folded.links.size() == expanded.links.size());
  for (std::size_t l = 0; l < folded.links.size(); ++l) {
    CHECK(folded.links[l].link == expanded.links[l].link);
    CHECK(folded.links[l].carried.base() == Approx(expanded.links[l].carried.base()).epsilon(1e-12));
  }
  return {std::move(folded), std::move(expanded)};
}

bool is_symmetric(const Case& c, std::uint64_t seed) {
  return !c.options.stragglers && c.options.slow.empty() && c.run.plan.placement.empty() && seed % 3 != 1 &&
         (!c.fabric || c.fabric->spec().degraded.share == 0.0);
}

}  // namespace

TEST_CASE("the critical path explains the whole step, and faster ops save at most what they take on it",
          "[property][sim]") {
  int handovers = 0;
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    Case c = draw(seed, 8);
    CAPTURE(seed, test::describe(c.run));
    const CostModel costs(*c.run.cluster, Calibration{}, c.run.plan.mesh, c.run.plan.placement, std::nullopt);
    c.options.critical_path = true;
    c.options.expand = seed % 2 == 0;
    if (seed % 11 == 0) c.options.noise = Noise{seed, 0.1};
    if (c.fabric) c.options.fabric = FabricRoutes{&*c.fabric, PathRule::by_destination, seed};
    const Simulation s = simulate(c.run, c.program, costs, c.options);
    REQUIRE(s.critical_path);
    const CriticalPath& path = *s.critical_path;
    REQUIRE_FALSE(path.steps.empty());
    // Each op begins when the one before it ends; ranks have cores of their own here.
    CHECK(path.waiting == 0);
    CHECK(path.steps.front().start == 0);
    CHECK(static_cast<double>(path.steps.back().end) * 1e-12 == Approx(s.report.step_time.base()).epsilon(1e-12));
    for (std::size_t i = 1; i < path.steps.size(); ++i) {
      REQUIRE(path.steps[i].start == path.steps[i - 1].end);
      handovers += path.steps[i].rank != path.steps[i - 1].rank ? 1 : 0;
    }
    const std::vector<std::int64_t> on_path = path.by_operation();
    CHECK(std::accumulate(on_path.begin(), on_path.end(), std::int64_t{0}) == path.steps.back().end);
    CHECK_FALSE(s.gains.empty());
    for (const Gain& g : s.gains) {
      CAPTURE(name_of(g.operation), g.all_compute);
      CHECK((!g.links || c.fabric));
      if (c.fabric) continue;  // what one message is spared may crowd another
      CHECK(g.saved >= 0);
      // Tenths are rounded to whole picoseconds, and noise is drawn anew for shorter ops.
      const auto ops = static_cast<std::int64_t>(path.steps.size());
      if (!c.options.noise) CHECK(g.saved <= g.on_path / 10 + ops);
    }
  }
  CHECK(handovers > 100);
}

// The fabric written out with such links gives the same step, and faster links that are never full save nothing.
TEST_CASE("a faster link saves what a fabric with such links saves", "[property][sim]") {
  std::uint32_t save = 0, idle = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Case c = draw(seed, 16);
    if (!c.fabric) continue;
    CAPTURE(seed, test::describe(c.run), c.fabric->spec().name);
    const CostModel costs(*c.run.cluster, Calibration{}, c.run.plan.mesh, c.run.plan.placement, std::nullopt);
    c.options.critical_path = true;
    c.options.fabric = FabricRoutes{&*c.fabric, PathRule::by_destination, seed};
    const Simulation s = simulate(c.run, c.program, costs, c.options);
    for (const Gain& g : s.gains) {
      if (g.links != LinkKind::network) continue;
      FabricSpec wide = c.fabric->spec();
      const auto widen = [](Link& l) {
        if (l.kind == LinkKind::network) l.bandwidth = (1.0 / 0.9) * l.bandwidth;
      };
      if (auto* tree = std::get_if<TreeNetwork>(&wide.network)) {
        for (TreeLevel& level : tree->levels) widen(level.link);
      } else if (auto* torus = std::get_if<TorusNetwork>(&wide.network)) {
        widen(torus->link);
      }
      const Fabric other(wide);
      SimulateOptions options = c.options;
      options.critical_path = false;
      options.fabric->fabric = &other;
      const double step = simulate(c.run, c.program, costs, options).report.step_time.base();
      // 1 ps for each op of depth.
      CHECK(static_cast<double>(g.saved) * 1e-12 == Approx(s.report.step_time.base() - step).margin(1e-9));
      ++(g.saved > 0 ? save : idle);
    }
  }
  CHECK(save >= 10);
  CHECK(idle >= 1);
}

TEST_CASE("folded equals expanded in order and in time", "[property][simulate][net]") {
  std::uint64_t classes = 0, ranks = 0, parted = 0;
  for (std::uint64_t seed = 1; seed <= 240; ++seed) {
    const Case c = draw(seed, seed % 8 == 0 ? 64 : 24);
    CAPTURE(seed, test::describe(c.run), c.fabric ? c.fabric->spec().name : "no fabric");
    const auto [folded, expanded] = compare(c, seed);
    parted += folded.rank_classes > c.program.classes.size() ? 1 : 0;
    if (!is_symmetric(c, seed)) continue;
    classes += folded.rank_classes;
    ranks += expanded.rank_classes;
  }
  CHECK(parted >= 100);             // op lists alone would not do
  CHECK(3 * classes <= 2 * ranks);  // and where little parts ranks, it pays
}

// 32 nodes of two GPUs, four nodes to a leaf by rails, half the bandwidth above: tensor ranks in a node, the four
// stages of a pipeline on one leaf, eight replicas. Cables between leaves and spines, drawn by seed, have failed. A
// plan that is cut off says so both folded and expanded.
TEST_CASE("folded equals expanded around failed links", "[property][simulate][net]") {
  std::uint32_t around = 0, cut = 0;
  for (std::uint64_t seed = 1; seed <= 90; ++seed) {
    Case c = draw(seed, 16);
    if (!c.fabric || c.fabric->links() == 0) continue;
    CAPTURE(seed, test::describe(c.run), c.fabric->spec().name);
    FabricSpec spec = c.fabric->spec();
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto l = static_cast<std::uint32_t>(random_bits(seed, stream_of("faults"), i) % c.fabric->links());
      spec.faults.push_back({c.fabric->name(LinkId{l}), i == 0 ? 0.0 : 0.5});
    }
    c.fabric.emplace(spec);
    try {
      const Simulation folded = compare(c, seed).first;
      ++around;
      for (const LinkLoad& l : folded.links) CHECK(c.fabric->link(l.link).bandwidth.base() > 0.0);
    } catch (const CutOff& folded) {
      ++cut;
      CHECK_THROWS_AS(play(c, true, seed), CutOff);
      CHECK(std::string(folded.what()).find(" is cut off from rank ") != std::string::npos);
    }
  }
  CHECK(around >= 20);
  CHECK(cut >= 3);
}

TEST_CASE("symmetric plans fold to few classes, and what breaks the symmetry parts ranks",
          "[property][simulate][net]") {
  Case c;
  c.run.model = test::tiny_llama({.layers = 4, .hidden = 32, .heads = 4, .vocabulary = 64});
  c.run.workload.global_batch = 32;
  c.run.workload.sequence_length = 16;
  c.run.plan.mesh = Mesh{{{Axis::data, 8}, {Axis::pipeline, 4}, {Axis::tensor, 2}}};
  c.run.plan.stage_layers = {1, 1, 1, 1};
  c.run.plan.zero_stage = 1;
  c.run.plan.gradient_bucket = 4.0 * kibibyte;
  c.run.plan.overlap_gradients = true;
  c.run.plan.attention = AttentionKernel::flash;
  c.run.cluster = test::small_cluster(32, 2, 64.0 * gibibyte);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  Diagnostics wrong;
  FabricSpec spec = *parse_fabric(
      "schema = 1\n[fabric]\nname = \"pod\"\nnodes = 32\n"
      "node = { shape = \"nvswitch\", gpus = 2, nics = 2, bandwidth = \"100 GB/s\", latency = \"1 us\", "
      "pcie_bandwidth = \"12 GB/s\", pcie_latency = \"1 us\" }\n"
      "network = { shape = \"fat_tree\", rails = true, down = [4, 16], up = [1, 2], bandwidth = \"10 GB/s\", "
      "latency = \"1 us\" }\n",
      "pod.toml", wrong);
  const auto classes = [&](std::uint64_t seed) { return compare(c, seed).first.rank_classes; };
  c.fabric.emplace(spec);
  const std::uint32_t symmetric = classes(2);  // rail-local
  CHECK(symmetric >= 4);
  CHECK(symmetric <= 8);
  CHECK(classes(1) > symmetric);  // hashed
  c.options.stragglers = Stragglers{1, 1, 2.0};
  const std::uint32_t slow = classes(2);
  CHECK(slow > symmetric);
  c.options.stragglers->count = 4;  // the first three are in one pipeline
  CHECK(classes(2) > slow);
  c.options.stragglers.reset();
  spec.degraded = {.share = 0.01, .factor = 0.5, .seed = 1};
  c.fabric.emplace(spec);
  CHECK(classes(2) > symmetric);
}
