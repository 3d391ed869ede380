// Looks at all eighths to test that the first eighths in host memory with which a plan fits are as good as any
// (planner/appraiser.hpp).
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>

#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/live_memory.hpp"
#include "planner/appraiser.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

/// The ordinary suite tries a fourth of the plans.
template <class Number>
Number sample(Number all) {
  return test::long_tests() ? all : all / 4;
}

/// A third of them have costs of software.
Calibration constants(std::uint64_t seed) {
  Calibration c;
  c.launch = 2.0 * microsecond;
  c.collective_launch = 5.0 * microsecond;
  if (seed % 3 == 1) c.software = test::random_software(seed);
  return c;
}

/// Hosts are as fast as devices, or slower: tiny modules take a device little more than a launch.
ClusterSpec cluster_of(const PlannedRun& run, std::uint64_t seed) {
  ClusterSpec c = test::small_cluster(1, static_cast<std::uint32_t>(run.plan.mesh.size()), gibibyte);
  for (const Precision p : {Precision::fp64, Precision::fp32, Precision::fp16, Precision::fp8}) {
    c.device.peak[p] = c.device.peak[Precision::bf16];
  }
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

struct Priced {
  Picoseconds step = 0;
  std::uint64_t peak = 0;
};

Priced priced(const PlannedRun& run, const ClusterSpec& cluster, const Calibration& calibration) {
  const Program program = lower(run.model, run.workload, run.plan);
  const CostModel costs(cluster, calibration, run.plan.mesh, {}, run.plan.collective_algorithm);
  LiveMemory memory;
  memory.read(program);
  Priced out{picoseconds(Estimator().step_time(program, costs)), 0};
  for (std::uint32_t c = 0; c < program.classes.size(); ++c)
    out.peak = std::max(out.peak, memory.peak(program, c).peak);
  return out;
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
  for (std::uint64_t seed = 0; seed < sample(4000U); ++seed) {
    PlannedRun run = some_run(seed);
    const ClusterSpec cluster = cluster_of(run, seed);
    run.plan.offload_activations = 8;
    if (!is_valid(run, cluster)) continue;
    std::optional<Picoseconds> before;
    for (std::uint32_t e = 0; e <= 8; ++e) {
      run.plan.offload_activations = e;
      const Picoseconds step = priced(run, cluster, constants(seed)).step;
      CAPTURE(seed, test::describe(run), e);
      CHECK(step >= before.value_or(0));
      longer += before && step > *before ? 1 : 0;
      before = step;
    }
    ++tried;
    beside_counts += run.plan.recompute_layers ? 1 : 0;
  }
  CAPTURE(tried, beside_counts);
  CHECK(tried > sample(200));
  CHECK(longer > sample(100));
  CHECK(beside_counts > sample(30));
}

TEST_CASE("an eighth more in host memory never holds more on a device", "[oracle][planner]") {
  int tried = 0, less = 0;
  for (std::uint64_t seed = 0; seed < sample(1200U); ++seed) {
    PlannedRun run = some_run(seed);
    const ClusterSpec cluster = cluster_of(run, seed);
    run.plan.offload_parameters = 0;
    run.plan.offload_states = run.plan.offload_activations = 0;
    for (auto member : {&Plan::offload_states, &Plan::offload_activations}) {
      PlannedRun other = run;
      other.plan.*member = 8;
      if (!is_valid(other, cluster)) continue;
      std::optional<std::uint64_t> before;
      // Activations count from one eighth on: the first needs room for its copies.
      for (std::uint32_t e = member == &Plan::offload_states ? 0 : 1; e <= 8; ++e) {
        other.plan.*member = e;
        const std::uint64_t peak = priced(other, cluster, constants(seed)).peak;
        CAPTURE(seed, test::describe(other), e);
        CHECK(peak <= before.value_or(peak));
        less += before && peak < *before ? 1 : 0;
        before = peak;
      }
      ++tried;
    }
  }
  CHECK(tried > sample(200));
  CHECK(less > sample(200));
}

TEST_CASE("a disk behind the host never shortens a step, and leaves devices as they are", "[oracle][planner]") {
  int tried = 0, longer = 0;
  for (std::uint64_t seed = 0; seed < sample(2500U); ++seed) {
    PlannedRun run = some_run(seed);
    ClusterSpec cluster = cluster_of(run, seed);
    // The host's link has any speed, also a higher one than the host's memory.
    const double speed = std::array{0.02, 5.0, 5000.0}[seed / 3 % 3];
    cluster.disk = DiskSpec{gibibyte, speed * gigabyte_per_second, 0.5 * speed * gigabyte_per_second, {}};
    if (!offloads(run.plan) || !is_valid(run, cluster)) continue;
    const Priced on_host = priced(run, cluster, constants(seed));
    for (unsigned on_disk = 1; on_disk < 8; ++on_disk) {
      const auto tier = [&](unsigned part) {
        return (on_disk >> part & 1U) != 0 ? OffloadTier::disk : OffloadTier::host;
      };
      PlannedRun other = run;
      other.plan.states_tier = tier(0);
      other.plan.parameters_tier = tier(1);
      other.plan.activations_tier = tier(2);
      if (!is_valid(other, cluster)) continue;
      const Priced there = priced(other, cluster, constants(seed));
      CAPTURE(seed, test::describe(other));
      CHECK(there.step >= on_host.step);
      CHECK(there.peak == on_host.peak);
      longer += there.step > on_host.step ? 1 : 0;
    }
    ++tried;
  }
  CHECK(tried > sample(100));
  CHECK(longer > sample(100));
}

// These are the first eighths that fit. The law above says that they are also the fastest for activations; states on a
// fast host may shorten a step.
TEST_CASE("the eighths that are found are the fewest that fit", "[oracle][planner]") {
  int found = 0, some = 0;
  for (std::uint64_t seed = 0; seed < sample(600U); ++seed) {
    PlannedRun run = some_run(seed);
    const ClusterSpec cluster = cluster_of(run, seed);
    const Calibration calibration = constants(seed);
    run.plan.offload_parameters = run.plan.offload_states = run.plan.offload_activations = 0;
    Appraiser appraiser(run.model, run.workload, cluster, calibration);
    for (const auto& [member, raised] : {std::pair{&Plan::offload_states, Raised::offloaded_states},
                                         std::pair{&Plan::offload_activations, Raised::offloaded_activations}}) {
      PlannedRun other = run;
      other.plan.*member = 8;
      if (!is_valid(other, cluster)) continue;
      std::array<Priced, 9> all;
      std::uint64_t least = ~std::uint64_t{0}, most = 0;
      for (std::uint32_t e = 0; e <= 8; ++e) {
        other.plan.*member = e;
        all[e] = priced(other, cluster, calibration);
        least = std::min(least, all[e].peak);
        most = std::max(most, all[e].peak);
      }
      for (const std::uint64_t room : {least - 1, least, least + (most - least) / 2, most - 1, most}) {
        const auto* first = std::find_if(all.begin(), all.end(), [&](const Priced& p) { return p.peak <= room; });
        other.plan.*member = 0;
        const Appraisal out = appraiser.appraise({other.plan, raised}, room);
        CAPTURE(seed, test::describe(run), static_cast<int>(raised), room);
        CHECK(out.fits == (first != all.end()));
        if (!out.fits || first == all.end()) continue;
        CHECK(*(out.plan.*member) == static_cast<std::uint32_t>(first - all.begin()));
        CHECK(out.peak == first->peak);
        CHECK(out.step == first->step);
        ++found;
        some += first != all.begin() ? 1 : 0;
      }
    }
  }
  CHECK(found > sample(200));
  CHECK(some > sample(100));
}
