// That only the fewest recomputed layers which fit need be looked at (docs/planner.md), by looking at all counts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "core/program/lower/lower.hpp"
#include "core/record/live_memory.hpp"
#include "planner/fewest_recomputed.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/oracle/planner/brute_force.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;
using test::calibration;

namespace {

using Counts = std::vector<std::uint32_t>;

struct Priced {
  Picoseconds step = 0;
  std::vector<std::uint64_t> peaks;  ///< by pipeline rank
};

/// A third of them with costs of software.
Calibration constants(std::uint64_t seed) {
  Calibration c = calibration();
  if (seed / 3 % 3 == 1) c.software = test::random_software(seed);
  return c;
}

/// Every count of every stage of a plan that recomputes, lowered and estimated.
std::map<Counts, Priced> all_counts(const PlannedRun& run, const ClusterSpec& cluster, const Calibration& calibration) {
  std::map<Counts, Priced> all;
  const CostModel costs(cluster, calibration, run.plan.mesh);
  test::for_each_count(*run.plan.stage_layers, [&](const Counts& counts) {
    Plan plan = run.plan;
    plan.recompute_layers = counts;
    const Program program = lower(run.model, run.workload, plan);
    LiveMemory memory;
    memory.read(program);
    Priced& at = all[counts];
    at.step = picoseconds(Estimator().step_time(program, costs));
    at.peaks.resize(plan.mesh.size(Axis::pipeline));
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      const StageMemory peak = memory.peak(program, c);
      at.peaks[peak.stage] = std::max(at.peaks[peak.stage], peak.peak);
    }
  });
  return all;
}

/// A random run that recomputes, with few enough counts to try them all.
std::optional<PlannedRun> recomputing_run(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.placement = false;
  limits.mixture = false;
  limits.recompute = seed % 3 == 0 ? Recompute::selective : Recompute::full;
  PlannedRun run = test::random_run(seed, limits);
  run.plan.offload_states = run.plan.offload_parameters = run.plan.offload_activations = 0;
  std::uint64_t vectors = 1;
  for (const std::uint32_t n : *run.plan.stage_layers) vectors *= n + 1;
  if (run.plan.recompute == Recompute::none || vectors > 64 || !bound_covers(run.plan, run.model, run.workload))
    return std::nullopt;
  return run;
}

}  // namespace

TEST_CASE("recomputing one layer more never shortens a step, and moves no other rank's memory", "[oracle][planner]") {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto run = recomputing_run(seed);
    if (!run) continue;
    ClusterSpec cluster = test::small_cluster(1, static_cast<std::uint32_t>(run->plan.mesh.size()), gibibyte);
    cluster.device.concurrent_lanes = seed % 4 != 0;
    const auto all = all_counts(*run, cluster, constants(seed));
    const StageMap map = stage_map(run->plan);
    CAPTURE(seed, test::describe(*run));
    for (const auto& [counts, priced] : all) {
      for (std::size_t s = 0; s < counts.size(); ++s) {
        if (counts[s] == (*run->plan.stage_layers)[s]) continue;
        Counts more = counts;
        ++more[s];
        const Priced& other = all.at(more);
        REQUIRE(other.step >= priced.step);
        for (std::uint32_t r = 0; r < map.ranks; ++r) {
          bool holds = false;
          for (std::uint32_t c = 0; c < map.chunks; ++c) holds = holds || map.stage(r, c) == s;
          if (!holds) REQUIRE(other.peaks[r] == priced.peaks[r]);
        }
        ++tried;
      }
    }
  }
  CHECK(tried > 2000);
}

TEST_CASE("of all counts of recomputed layers that fit the fewest are the fastest", "[oracle][planner]") {
  int found = 0, some = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto run = recomputing_run(seed);
    if (!run) continue;
    const ClusterSpec cluster = test::small_cluster(1, static_cast<std::uint32_t>(run->plan.mesh.size()), gibibyte);
    const auto all = all_counts(*run, cluster, constants(seed));
    const auto peak = [](const Priced& p) { return *std::max_element(p.peaks.begin(), p.peaks.end()); };
    std::uint64_t least = ~std::uint64_t{0}, most = 0;
    for (const auto& [counts, priced] : all) least = std::min(least, peak(priced)), most = std::max(most, peak(priced));
    Bounder bounder(run->model, run->workload, cluster, constants(seed));
    FewestRecomputed fewest;
    for (const std::uint64_t capacity : {least - 1, least, least + (most - least) / 3, most - 1, most}) {
      std::optional<Picoseconds> best;
      for (const auto& [counts, priced] : all) {
        if (peak(priced) > capacity || !test::may_count(run->plan, counts)) continue;
        best = best ? std::min(*best, priced.step) : priced.step;
      }
      Plan plan = run->plan;
      plan.recompute_layers.emplace(plan.stage_layers->size(), 0);
      Program program;
      CAPTURE(seed, test::describe(*run), capacity);
      REQUIRE(fewest.find(plan, program, run->model, run->workload, capacity, bounder) == best.has_value());
      if (!best) continue;
      REQUIRE(peak(all.at(*plan.recompute_layers)) <= capacity);
      REQUIRE(all.at(*plan.recompute_layers).step == *best);
      REQUIRE(program == lower(run->model, run->workload, plan));
      ++found;
      some += *plan.recompute_layers != Counts(plan.stage_layers->size(), 0) ? 1 : 0;
    }
  }
  CHECK(found > 100);
  CHECK(some > 40);
}
