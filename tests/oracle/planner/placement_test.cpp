#include "planner/placement.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/random.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/axis_orders.hpp"
#include "planner/fabric_symmetry.hpp"
#include "planner/least_anywhere.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/random_fabric.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

// The places of ranks: the search's result, against every placement that exists.

using namespace orrery;

namespace {

struct Case {
  PlannedRun run;
  Program program;
  std::optional<Fabric> fabric;
  PathRule rule = PathRule::by_destination;

  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(program.mesh.size()); }
  [[nodiscard]] FabricRoutes routes() const { return {&*fabric, rule, 1}; }
  [[nodiscard]] CostModel costs(const std::vector<std::uint32_t>& placement) const {
    return {*run.cluster, Calibration{}, program.mesh, placement, run.plan.collective_algorithm};
  }
  [[nodiscard]] Simulation simulated(const std::vector<std::uint32_t>& placement) const {
    PlannedRun placed = run;
    placed.plan.placement = placement;
    SimulateOptions options;
    options.trace = SimulateOptions::Ranks::none;
    options.fabric = routes();
    return simulate(placed, program, costs(placement), options);
  }
  [[nodiscard]] double step(const std::vector<std::uint32_t>& placement) const {
    return simulated(placement).report.step_time.base();
  }
};

Case draw(std::uint64_t seed, std::uint32_t ranks) {
  test::RandomRunLimits limits;
  limits.max_ranks = ranks;
  Case c{{}, {}, {}};
  std::uint64_t tried = 0;
  do {
    c.run = test::random_run(mix(seed) % 100'000 + tried++, limits);
  } while (c.run.plan.mesh.size() != ranks);
  const std::uint32_t per_node = ranks % 4 == 0 && seed % 3 == 0 ? 4 : ranks % 2 == 0 && seed % 3 == 1 ? 2 : 1;
  c.run.cluster = test::small_cluster(ranks / per_node, per_node, 64.0 * gibibyte);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  c.fabric = test::random_fabric(seed, ranks / per_node, per_node);
  constexpr PathRule rules[] = {PathRule::by_destination, PathRule::hashed, PathRule::rail_local};
  c.rule = rules[seed % 3];
  return c;
}

/// A data-parallel run on nodes of one GPU each, joined as a torus: only the ring's way counts.
Case ring_on_torus(std::vector<std::uint32_t> sizes, std::vector<std::uint32_t> placement) {
  Case c;
  c.run.model = test::tiny_llama({.layers = 4, .hidden = 64, .heads = 4, .vocabulary = 64});
  c.run.workload.global_batch = 8;
  c.run.workload.sequence_length = 16;
  c.run.plan.mesh = Mesh{{{Axis::data, 8}}};
  c.run.plan.placement = std::move(placement);
  c.run.plan.stage_layers = {4};
  c.run.plan.gradient_bucket = 1.0 * mebibyte;
  c.run.plan.overlap_gradients = true;
  c.run.plan.attention = AttentionKernel::flash;
  c.run.plan.collective_algorithm = CollectiveAlgorithm::ring;
  c.run.cluster = test::small_cluster(8, 1, 64.0 * gibibyte);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  FabricSpec spec;
  spec.name = "torus";
  spec.nodes = 8;
  TorusNetwork torus;
  torus.sizes = std::move(sizes);
  torus.link = {LinkKind::network, 10.0 * gigabyte_per_second, Seconds::of(1e-6)};
  spec.network = torus;
  c.fabric.emplace(spec);
  return c;
}

std::vector<std::uint32_t> shuffled(std::uint64_t seed, std::uint32_t n) {
  std::vector<std::uint32_t> p(n);
  std::iota(p.begin(), p.end(), 0U);
  for (std::uint32_t i = n; i > 1; --i) std::swap(p[i - 1], p[random_bits(seed, 7, i) % i]);
  return p;
}

/// The shortest step of all n! placements.
double shortest(const Case& c) {
  std::vector<std::uint32_t> p(c.ranks());
  std::iota(p.begin(), p.end(), 0U);
  double best = INFINITY;
  do best = std::min(best, c.step(p));
  while (std::next_permutation(p.begin(), p.end()));
  return best;
}

}  // namespace

TEST_CASE("the placement found is the best of all, and without looking at all the gap is an honest one",
          "[oracle][placement]") {
  // 24 and 720 placements; with ORRERY_LONG_TESTS also 40320.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> cases = {{1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4},
                                                                {6, 4}, {7, 4}, {8, 4}, {9, 4}, {10, 6}};
  if (std::getenv("ORRERY_LONG_TESTS") != nullptr) {
    cases.insert(cases.end(), {{11, 6}, {12, 6}, {13, 6}, {14, 6}, {15, 6}, {16, 8}});
  }
  std::uint32_t better = 0;
  for (const auto& [seed, ranks] : cases) {
    const Case c = draw(seed, ranks);
    CAPTURE(seed, test::describe(c.run), c.fabric->spec().name, c.fabric->spec().node.gpus);
    const double best = shortest(c);
    const PlacementSearch all = search_placement(c.run, c.program, Calibration{}, c.routes());
    // Steps that differ by no more than that count as equal.
    CHECK(all.found.step.base() <= best * (1.0 + 2.0 * placement_tolerance));
    CHECK(all.found.step.base() >= best * (1.0 - 1e-9));
    // The plan, read back, gives that step.
    PlannedRun placed = c.run;
    placed.plan = all.found.plan;
    const Program program = lower(placed.model, placed.workload, placed.plan);
    SimulateOptions options;
    options.fabric = c.routes();
    const CostModel costs(*placed.cluster, Calibration{}, placed.plan.mesh, placed.plan.placement,
                          placed.plan.collective_algorithm);
    CHECK(simulate(placed, program, costs, options).report.step_time.base() ==
          Approx(all.found.step.base()).epsilon(2.0 * placement_tolerance));
    // The bound is never above the best, either.
    PlacementOptions few;
    few.most_exact = 0;
    few.tries = 60;
    const PlacementSearch some = search_placement(c.run, c.program, Calibration{}, c.routes(), few);
    CHECK_FALSE(some.every);
    CHECK(some.least.base() <= best * (1.0 + 1e-9));
    CHECK(some.found.step.base() >= best * (1.0 - 1e-9));
    CHECK(some.found.step <= some.given.step);
    CHECK(all.worst.step.base() >= best * (1.0 - 1e-9));
    better += all.found.step.base() < all.given.step.base() * (1.0 - placement_tolerance) ? 1 : 0;
    // Deterministic.
    CHECK(search_placement(c.run, c.program, Calibration{}, c.routes(), few).found.plan == some.found.plan);
  }
  CHECK(better >= 2);
}

// An all-reduce of n bytes by a ring of 8 sends 2 * 7 / 8 n over every wire that it follows.  On a ring of wires that
// is the least any placement can do, and any other order of the ring crosses some wire twice.
TEST_CASE("a ring is laid along the wires", "[oracle][placement]") {
  const Case c = ring_on_torus({8}, shuffled(3, 8));
  const PlacementSearch r = search_placement(c.run, c.program, Calibration{}, c.routes());
  double payload = 0.0;  // of all rings, by the Program
  for (const AxisTraffic& t : r.given.traffic) {
    for (const GpuTraffic& p : t.between) payload += p.payload / 8.0;
  }
  const double wire = 10e9 * c.costs({}).collectives().reach(1);
  CHECK(r.found.busiest.busy.base() == Approx(payload / wire).epsilon(1e-9));
  CHECK(r.given.busiest.busy.base() > 1.9 * payload / wire);
  CHECK(r.found.step < r.given.step);
  // The ring goes around the ring of wires, one way or the other.
  const std::vector<std::uint32_t>& p = r.found.plan.placement;
  for (std::size_t i = 0; !p.empty() && i < 8; ++i) {
    const std::uint32_t apart = (p[(i + 1) % 8] + 8 - p[i]) % 8;
    CHECK((apart == 1 || apart == 7));
  }
  // The search also finds it by changes alone, without looking at all placements.
  PlacementOptions changes;
  changes.most_exact = 0;
  changes.tries = 2000;
  const Case twisted = ring_on_torus({4, 2}, shuffled(5, 8));
  const PlacementSearch walked =
      search_placement(twisted.run, twisted.program, Calibration{}, twisted.routes(), changes);
  const PlacementSearch every = search_placement(twisted.run, twisted.program, Calibration{}, twisted.routes());
  CHECK(walked.found.step.base() == Approx(every.found.step.base()).epsilon(2.0 * placement_tolerance));
}

TEST_CASE("placements that look alike to the fabric take equally long", "[oracle][placement]") {
  std::uint32_t alike = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Case c = draw(seed, seed % 2 == 0 ? 8 : 4);
    CAPTURE(seed, test::describe(c.run), c.fabric->spec().name);
    const CostModel costs = c.costs({});
    const FabricTraffic traffic(c.routes(), c.program, costs, {});
    const FabricSymmetry s = fabric_symmetry(traffic, *c.run.cluster, c.ranks());
    std::vector<std::uint32_t> p = shuffled(seed, c.ranks());
    const double before = c.step(p);
    for (std::uint32_t& device : p) {  // the first two GPUs that are alike change places
      for (std::uint32_t g = 0; g < c.ranks(); ++g) {
        if (s.class_of_gpu[g] == g) continue;
        const std::uint32_t other = s.class_of_gpu[g];
        device = device == g ? other : device == other ? g : device;
        ++alike;
        break;
      }
    }
    for (std::uint32_t n = 1; n < s.class_of_node.size(); ++n) {
      const std::uint32_t other = s.class_of_node[n], of_node = s.gpus_of_node;
      if (other == n) continue;
      for (std::uint32_t& device : p) {
        const std::uint32_t node = device / of_node;
        if (node == n || node == other) device = (n + other - node) * of_node + device % of_node;
      }
      ++alike;
      break;
    }
    // 1 ps for each op of depth: flows begin in another order.
    CHECK(c.step(p) == Approx(before).epsilon(1e-6));
  }
  CHECK(alike >= 20);
}

TEST_CASE("symmetry leaves one placement of each kind", "[oracle][placement]") {
  const auto count = [](const FabricSymmetry& s) {
    std::set<std::vector<std::uint32_t>> seen;
    CHECK(for_each_placement(s, 1'000'000, [&](const auto& p) { return seen.insert(p).second; }));
    return seen.size();
  };
  CHECK(count(no_symmetry(5, 1)) == 120);
  // All alike: one.
  CHECK(count({{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, 1}) == 1);
  CHECK(count({{0, 0, 0, 0, 0, 0}, {0}, 6}) == 1);
  // Two like nodes of four like GPUs: 8! / (4! 4! 2!) = 35; unlike nodes: 70.
  CHECK(count({{0, 0, 0, 0, 4, 4, 4, 4}, {0, 0}, 4}) == 35);
  CHECK(count({{0, 0, 0, 0, 4, 4, 4, 4}, {0, 1}, 4}) == 70);
  // Three like nodes of two unlike GPUs: 6! / 3! = 120.
  CHECK(count({{0, 1, 2, 3, 4, 5}, {0, 0, 0}, 2}) == 120);
  CHECK_FALSE(for_each_placement(no_symmetry(5, 1), 119, [](const auto&) { return true; }));
}

TEST_CASE("what is said to be sent over links is what a simulated step sends", "[oracle][placement]") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Case c = draw(seed, seed % 3 == 0 ? 8 : 4);
    CAPTURE(seed, test::describe(c.run), c.fabric->spec().name);
    const std::vector<std::uint32_t> placement = seed % 2 == 0 ? shuffled(seed, c.ranks()) : c.run.plan.placement;
    const CostModel costs = c.costs(placement);
    const FabricTraffic traffic(c.routes(), c.program, costs, placement);
    const std::vector<LinkLoad> loads = link_loads(StepTraffic(c.program).between(traffic), traffic);
    const Simulation s = c.simulated(placement);
    REQUIRE(loads.size() == s.links.size());
    for (std::size_t l = 0; l < loads.size(); ++l) {
      CHECK(loads[l].link == s.links[l].link);
      CHECK(loads[l].carried.base() == Approx(s.links[l].carried.base()).epsilon(1e-9));  // sums in another order
    }
    // Both are lower bounds on the step.
    CHECK(busiest_link(loads).busy.base() <= s.report.step_time.base() * (1.0 + 1e-9));
    CHECK(least_anywhere(c.program, costs).base() <= Estimator().step_time(c.program, costs).base() * (1.0 + 1e-9));
  }
}

TEST_CASE("every way in which ranks can lie on a cluster is among the possible shapes", "[oracle][placement]") {
  ClusterSpec c = test::small_cluster(4, 4, 64.0 * gibibyte);
  c.levels = {{"pair", 2, 100.0 * gigabyte_per_second, microsecond},
              {"node", 2, 50.0 * gigabyte_per_second, microsecond},
              {"network", 4, 10.0 * gigabyte_per_second, microsecond}};
  std::vector<std::vector<GroupShape>> possible(17);
  for (std::uint32_t p = 1; p <= 16; ++p) possible[p] = possible_shapes(p, c);
  for (std::uint32_t set = 1; set < 1U << 16U; ++set) {
    std::vector<std::uint32_t> devices;
    for (std::uint32_t d = 0; d < 16; ++d) {
      if ((set >> d & 1U) != 0) devices.push_back(d);
    }
    const GroupShape shape = group_shape(devices, c);
    const std::vector<GroupShape>& all = possible[devices.size()];
    if (std::find(all.begin(), all.end(), shape) == all.end()) FAIL_CHECK("subset " << set);
  }
  CHECK(possible_shapes(16, c, 1).empty());
}

TEST_CASE("an order of axes places ranks as a mesh in that order numbers them", "[oracle][placement]") {
  const Mesh mesh{{{Axis::pipeline, 2}, {Axis::data, 6}, {Axis::tensor, 4}}};
  CHECK(whole_orders(mesh).size() == 6);
  for (const AxisOrder& order : whole_orders(mesh)) {
    const Mesh other{order.axes};
    const std::vector<std::uint32_t> placement = placement_of(mesh, order);
    for (std::uint32_t r = 0; r < 48; ++r) {
      for (const Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) {
        CHECK(other.coordinate(Rank{placement[r]}, axis) == mesh.coordinate(Rank{r}, axis));
      }
    }
  }
  // There are 2 x (2 x 3) x (2 x 2), so 5! / 2! = 60 orders of factors. They are fewer where 2 and 3 of data stand side
  // by side: those with one of the two in front, 4! / 2! = 12 times, are counted once.
  std::set<std::vector<std::uint32_t>> seen;
  for (const AxisOrder& order : factor_orders(mesh, 1000)) {
    const std::vector<std::uint32_t> placement = placement_of(mesh, order);
    CHECK(std::set<std::uint32_t>(placement.begin(), placement.end()).size() == 48);
    CHECK(seen.insert(placement).second);
  }
  CHECK(seen.size() == 48);
  CHECK(factor_orders(mesh, 59).empty());
  CHECK(text_of({{{Axis::data, 2}, {Axis::tensor, 4}, {Axis::data, 2}, {Axis::data, 3}}}) ==
        "data 2 > tensor 4 > data 6");
}
