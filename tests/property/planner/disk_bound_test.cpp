// Bounds on what hosts hold and on what disks take, beside Programs of random plans on all tiers.
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/fewest_offloaded.hpp"
#include "planner/nearest_tiers.hpp"
#include "sim/bound/bound.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

/// Nodes of any size that divides the mesh; disks and hosts slow or fast beside tiny models, lanes side by side or not.
ClusterSpec cluster_of(const PlannedRun& run, std::uint64_t seed) {
  auto draw = [&, counter = std::uint64_t{0}](std::uint64_t n) mutable {
    return random_bits(seed, stream_of("disks"), counter++) % n;
  };
  const auto ranks = static_cast<std::uint32_t>(run.plan.mesh.size());
  std::uint32_t per_node = static_cast<std::uint32_t>(1 + draw(ranks));
  while (ranks % per_node != 0) --per_node;
  ClusterSpec c = test::small_cluster(ranks / per_node, per_node, gibibyte);
  c.device.concurrent_lanes = draw(4) != 0;
  c.host_memory = gibibyte;
  c.host_link = (draw(2) == 0 ? 20.0 : 0.05) * gigabyte_per_second;
  c.host_bandwidth = (draw(2) == 0 ? 2000.0 : 0.05) * ranks * gigabyte_per_second;
  const double disk = draw(2) == 0 ? 5.0 : 0.01;
  c.disk = DiskSpec{gibibyte, disk * gigabyte_per_second, 0.5 * disk * gigabyte_per_second,
                    static_cast<double>(draw(3)) * microsecond};
  return c;
}

/// Of plans that offload something, on all of their tiers.
template <class Visit>
int for_each_plan(std::uint64_t seeds, Visit&& visit) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    test::RandomRunLimits limits;
    limits.beyond_bound = seed % 2 == 0;
    PlannedRun run = test::random_run(seed, limits);
    run.cluster = cluster_of(run, seed);
    if (!bound_covers_offload(run.model, run.workload)) continue;
    auto draw = [&, counter = std::uint64_t{0}](std::uint64_t n) mutable {
      return static_cast<std::uint32_t>(random_bits(seed, stream_of("eighths"), counter++) % n);
    };
    Plan& plan = run.plan;
    const std::uint32_t states = draw(9);
    plan.offload_states = states;
    plan.offload_parameters = plan.zero_stage == 3 || draw(2) == 0 ? 0 : draw(states + 1);
    plan.offload_activations = draw(2) == 0 ? 0 : draw(9);
    set_tiers(plan, {});
    if (!offloads(plan) || !bound_covers(plan, run.model, run.workload)) continue;
    for_each_tiers(run.plan, [&] {
      Diagnostics wrong;
      check(run.plan, run.model, run.workload, &*run.cluster, wrong);
      if (!wrong.empty()) return;
      visit(seed, run);
      ++plans;
    });
  }
  return plans;
}

struct Exact {
  std::uint64_t device = 0, host = 0;
  Picoseconds step = 0;
};
Exact exact_of(const PlannedRun& run) {
  const Program program = lower(run.model, run.workload, run.plan);
  const CostModel costs(*run.cluster, {}, run.plan.mesh, run.plan.placement, run.plan.collective_algorithm);
  const Report report = estimate(run, program, costs);
  return {report.peak_memory_bytes, report.peak_host_memory_bytes.value_or(0), picoseconds(report.step_time)};
}

}  // namespace

TEST_CASE("hosts hold no less than the bound, and no step is shorter than with disks it says", "[property][planner]") {
  double held = 0, step = 0;
  int with_host = 0;
  const int plans = for_each_plan(8000, [&](std::uint64_t seed, const PlannedRun& run) {
    Bounder bounder(run.model, run.workload, *run.cluster, {});
    const Exact exact = exact_of(run);
    const std::uint64_t bytes = bounder.host_memory(run.plan);
    CAPTURE(seed, test::describe(run), run.cluster->devices_per_node);
    REQUIRE(bytes <= exact.host);
    REQUIRE(bounder.host_memory(run.plan, HostHeld::more_offloaded) <= bytes);
    const std::uint64_t on_device = bounder.peak_memory(run.plan);
    REQUIRE(on_device <= exact.device);
    if (memory_is_exact(run.plan, run.workload)) REQUIRE(on_device == exact.device);
    const Picoseconds bound = bounder.step_time(run.plan);
    REQUIRE(bound <= bounder.closer(run.plan).step);
    REQUIRE(bounder.closer(run.plan).step <= exact.step);
    Plan on_host = run.plan;
    set_tiers(on_host, {});
    REQUIRE(bounder.step_time(on_host) <= bound);
    step += static_cast<double>(bound) / static_cast<double>(exact.step);
    if (exact.host == 0) return;
    held += static_cast<double>(bytes) / static_cast<double>(exact.host);
    ++with_host;
  });
  CAPTURE(plans, with_host);
  CHECK(plans > 1000);
  CHECK(held / with_host > 0.85);
  CHECK(step / plans > 0.65);
}

TEST_CASE("bounds for more in host memory hold for every eighth more, on all tiers", "[property][planner]") {
  const int plans = for_each_plan(2000, [&](std::uint64_t seed, const PlannedRun& first) {
    if (*first.plan.offload_states == 0) return;
    Bounder bounder(first.model, first.workload, *first.cluster, {});
    const std::uint64_t bytes = bounder.host_memory(first.plan, HostHeld::more_offloaded);
    const Picoseconds step = bounder.more_offloaded(first.plan);
    const bool parameters = *first.plan.offload_parameters > 0;
    PlannedRun run = first;
    for (std::uint32_t s = *first.plan.offload_states; s <= 8; ++s) {
      for (std::uint32_t p = *first.plan.offload_parameters; p <= (parameters ? s : 0); ++p) {
        run.plan.offload_states = s;
        run.plan.offload_parameters = p;
        const Exact exact = exact_of(run);
        CAPTURE(seed, test::describe(first), test::describe(run));
        REQUIRE(bytes <= exact.host);
        REQUIRE(step <= exact.step);
      }
    }
  });
  CHECK(plans > 300);
}
