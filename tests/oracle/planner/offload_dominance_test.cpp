// What stands for what among plans with more or less in host memory (docs/planner.md), by looking at all eighths.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>

#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/fewest_offloaded.hpp"
#include "planner/nearest_tiers.hpp"
#include "planner/outdone.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

/// A third of them with costs of software.
Calibration constants(std::uint64_t seed) {
  Calibration c;
  c.launch = 2.0 * microsecond;
  c.collective_launch = 5.0 * microsecond;
  if (seed % 3 == 1) c.software = test::random_software(seed);
  return c;
}

/// Hosts as fast as devices, or slower: tiny modules take a device little more than a launch.
ClusterSpec cluster_of(const PlannedRun& run, std::uint64_t seed) {
  ClusterSpec c = test::small_cluster(1, static_cast<std::uint32_t>(run.plan.mesh.size()), gibibyte);
  c.device.concurrent_lanes = seed % 4 != 0;
  c.host_memory = gibibyte;
  c.host_link = (seed % 3 == 0 ? 20.0 : 0.05) * gigabyte_per_second;
  c.host_bandwidth = (seed % 3 == 0 ? 2000.0 : 0.02) * static_cast<double>(run.plan.mesh.size()) * gigabyte_per_second;
  return c;
}

bool is_valid(const PlannedRun& run, const ClusterSpec& cluster) {
  Diagnostics wrong;
  check(run.plan, run.model, run.workload, &cluster, wrong);
  return wrong.empty();
}

Picoseconds step_of(const PlannedRun& run, const ClusterSpec& cluster, std::uint64_t seed) {
  return picoseconds(Estimator().step_time(lower(run.model, run.workload, run.plan),
                                           CostModel(cluster, constants(seed), run.plan.mesh)));
}

PlannedRun some_run(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.placement = false;
  PlannedRun run = test::random_run(seed, limits);
  run.plan.states_tier = run.plan.parameters_tier = run.plan.activations_tier = OffloadTier::host;
  return run;
}

}  // namespace

TEST_CASE("an eighth more of activations in host memory never shortens a step", "[oracle][planner]") {
  int tried = 0, longer = 0, beside_counts = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    PlannedRun run = some_run(seed);
    const ClusterSpec cluster = cluster_of(run, seed);
    run.plan.offload_activations = 8;
    if (!is_valid(run, cluster)) continue;
    std::optional<Picoseconds> before;
    for (std::uint32_t e = 0; e <= 8; ++e) {
      run.plan.offload_activations = e;
      const Picoseconds step = step_of(run, cluster, seed);
      CAPTURE(seed, test::describe(run), e);
      REQUIRE(step >= before.value_or(0));
      longer += before && step > *before ? 1 : 0;
      before = step;
    }
    ++tried;
    beside_counts += run.plan.recompute_layers ? 1 : 0;
  }
  CAPTURE(tried, beside_counts);
  CHECK(tried > 200);
  CHECK(longer > 100);
  CHECK(beside_counts > 30);
}

TEST_CASE("a disk behind the host never shortens a step, and leaves devices as they are", "[oracle][planner]") {
  int tried = 0, longer = 0;
  for (std::uint64_t seed = 0; seed < 2500; ++seed) {
    PlannedRun run = some_run(seed);
    ClusterSpec cluster = cluster_of(run, seed);
    // Of any speed, faster than the host's memory too.
    const double speed = std::array{0.02, 5.0, 5000.0}[seed / 3 % 3];
    cluster.disk = DiskSpec{gibibyte, speed * gigabyte_per_second, 0.5 * speed * gigabyte_per_second, {}};
    if (!offloads(run.plan) || !is_valid(run, cluster)) continue;
    std::optional<Picoseconds> on_host;
    std::uint64_t device = 0;
    for_each_tiers(run.plan, [&] {
      CAPTURE(seed, test::describe(run));
      const Program program = lower(run.model, run.workload, run.plan);
      const Picoseconds step = step_of(run, cluster, seed);
      const std::uint64_t peak = FewestOffloaded().peak(program);
      if (!on_host) on_host = step, device = peak;
      REQUIRE(step >= *on_host);
      REQUIRE(peak == device);
      longer += step > *on_host ? 1 : 0;
    });
    ++tried;
  }
  CHECK(tried > 100);
  CHECK(longer > 100);
}

TEST_CASE("what is outdone by less in host memory is no faster", "[oracle][planner]") {
  int outdone = 0, kept = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    PlannedRun run = some_run(seed);
    const ClusterSpec cluster = cluster_of(run, seed);
    run.plan.offload_parameters = 0;
    run.plan.offload_states = 8;
    if (!is_valid(run, cluster) || !bound_covers(run.plan, run.model, run.workload)) continue;
    Bounder bounder(run.model, run.workload, cluster, constants(seed));
    const bool parameters = run.plan.zero_stage < 3 && !mixes_kinds(run.model);
    for (std::uint32_t p = 0; p <= (parameters ? 8U : 0U); p += 4) {
      for (std::uint32_t s = std::max(1U, p); s <= 8; ++s) {
        run.plan.offload_parameters = p;
        run.plan.offload_states = s;
        const Picoseconds more = step_of(run, cluster, seed);
        // As if everything fitted: each plan that stands for it, one after the other.
        PlannedRun other = run;
        bool stands = false;
        static_cast<void>(is_outdone(run.plan, bounder, [&](Plan& less) {
          if (run.plan.offload_activations != 0U && less.offload_activations == 0U) return false;
          less.recompute_layers = run.plan.recompute_layers;
          less.offload_activations = run.plan.offload_activations;
          other.plan = less;
          CAPTURE(seed, test::describe(run), test::describe(other));
          REQUIRE(step_of(other, cluster, seed) <= more);
          stands = true;
          return false;
        }));
        outdone += stands ? 1 : 0;
        kept += stands ? 0 : 1;
      }
    }
  }
  CHECK(outdone > 200);
  CHECK(kept > 40);
}
