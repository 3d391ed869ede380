// Looks at all counts to test that the first counts of recomputed layers with which a plan fits are as good as any
// (planner/appraiser.hpp).
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "core/plan/schedule_rules.hpp"
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

using Counts = std::vector<std::uint32_t>;

struct Priced {
  Picoseconds step = 0;
  std::vector<std::uint64_t> peaks;  ///< by pipeline rank
};

/// A third of them have costs of software.
Calibration constants(std::uint64_t seed) {
  Calibration c;
  c.launch = 2.0 * microsecond;
  c.collective_launch = 5.0 * microsecond;
  if (seed / 3 % 3 == 1) c.software = test::random_software(seed);
  return c;
}

/// Calls `visit` with every count of every stage, none first.
template <class Visit>
void for_each_count(const Counts& layers, Visit&& visit) {
  Counts counts(layers.size(), 0);
  for (;;) {
    visit(counts);
    std::size_t at = 0;
    while (at < counts.size() && counts[at] == layers[at]) counts[at++] = 0;
    if (at == counts.size()) return;
    ++counts[at];
  }
}

/// Every count of every stage of a plan that recomputes, lowered and estimated.
std::map<Counts, Priced> all_counts(const PlannedRun& run, const ClusterSpec& cluster, const Calibration& calibration) {
  std::map<Counts, Priced> all;
  const CostModel costs(cluster, calibration, run.plan.mesh, {}, run.plan.collective_algorithm);
  for_each_count(*run.plan.stage_layers, [&](const Counts& counts) {
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
  run.plan.recompute_layers.reset();
  std::uint64_t vectors = 1;
  for (const std::uint32_t n : *run.plan.stage_layers) vectors *= n + 1;
  if (run.plan.recompute == Recompute::none || vectors > 64) return std::nullopt;
  return run;
}

ClusterSpec cluster_of(const PlannedRun& run) {
  ClusterSpec cluster = test::small_cluster(1, static_cast<std::uint32_t>(run.plan.mesh.size()), gibibyte);
  for (const Precision p : {Precision::fp64, Precision::fp32, Precision::fp16, Precision::fp8}) {
    cluster.device.peak[p] = cluster.device.peak[Precision::bf16];
  }
  return cluster;
}

/// Whether each rank's stages take turns: the one with the fewest comes first, among equals the lowest, as far as they
/// have layers.
bool takes_turns(const Plan& plan, const Counts& counts) {
  const StageMap map = stage_map(plan);
  const Counts& layers = *plan.stage_layers;
  for (std::uint32_t a = 0; a < counts.size(); ++a) {
    for (std::uint32_t b = 0; b < counts.size(); ++b) {
      // If b had more than its turn, a would have had it before.
      const std::uint32_t turn = counts[a] + (a < b ? 0 : 1);
      const bool together = map.two_way() ? a + b == map.ranks - 1 : map.rank(a) == map.rank(b);
      if (together && counts[b] > turn && counts[a] < layers[a]) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("recomputing one layer more never shortens a step, and moves no other rank's memory", "[oracle][planner]") {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < sample(600U); ++seed) {
    const auto run = recomputing_run(seed);
    if (!run) continue;
    ClusterSpec cluster = cluster_of(*run);
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
        CAPTURE(counts, s);
        CHECK(other.step >= priced.step);
        for (std::uint32_t r = 0; r < map.ranks; ++r) {
          bool holds = false;
          for (std::uint32_t c = 0; c < map.chunks; ++c) holds = holds || map.stage(r, c) == s;
          if (!holds) CHECK(other.peaks[r] == priced.peaks[r]);
        }
        ++tried;
      }
    }
  }
  CHECK(tried > sample(2000));
}

TEST_CASE("the counts of recomputed layers that are found fit, and none that fit are faster", "[oracle][planner]") {
  int found = 0, some = 0;
  for (std::uint64_t seed = 0; seed < sample(400U); ++seed) {
    const auto run = recomputing_run(seed);
    if (!run) continue;
    const ClusterSpec cluster = cluster_of(*run);
    const Calibration calibration = constants(seed);
    const auto all = all_counts(*run, cluster, calibration);
    const auto peak = [](const Priced& p) { return *std::max_element(p.peaks.begin(), p.peaks.end()); };
    std::uint64_t least = ~std::uint64_t{0}, most = 0;
    for (const auto& [counts, priced] : all) least = std::min(least, peak(priced)), most = std::max(most, peak(priced));
    Appraiser appraiser(run->model, run->workload, cluster, calibration);
    for (const std::uint64_t room : {least - 1, least, least + (most - least) / 3, most - 1, most}) {
      std::optional<Picoseconds> best;
      for (const auto& [counts, priced] : all) {
        if (peak(priced) > room || !takes_turns(run->plan, counts)) continue;
        best = best ? std::min(*best, priced.step) : priced.step;
      }
      CAPTURE(seed, test::describe(*run), room);
      const Appraisal out = appraiser.appraise({run->plan, Raised::recomputed_layers}, room);
      CHECK(out.fits == best.has_value());
      if (!best || !out.fits) continue;
      Counts counts(run->plan.stage_layers->size(), 0);
      if (out.plan.recompute != Recompute::none) counts = out.plan.recompute_layers.value_or(*run->plan.stage_layers);
      CAPTURE(counts);
      CHECK(out.peak <= room);
      CHECK(out.peak == peak(all.at(counts)));
      CHECK(out.step == all.at(counts).step);
      CHECK(out.step == *best);
      ++found;
      some += counts != Counts(counts.size(), 0) ? 1 : 0;
    }
  }
  CHECK(found > sample(100));
  CHECK(some > sample(40));
}
