#pragma once

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/nearest_tiers.hpp"
#include "planner/outdone.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery::test {

/// Of the small clusters.
inline Calibration calibration() {
  Calibration c;
  c.launch = 2.0 * microsecond;
  c.collective_launch = 5.0 * microsecond;
  return c;
}

struct Exact {
  std::uint64_t number = 0;
  double step = 0;
  std::uint64_t peak = 0;
};

/// Calls visit(counts) for every count of recomputed layers of every stage.
template <class Visit>
void for_each_count(const std::vector<std::uint32_t>& stage_layers, Visit&& visit) {
  std::vector<std::uint32_t> counts(stage_layers.size(), 0);
  for (;;) {
    visit(counts);
    std::size_t s = 0;
    while (s < counts.size() && counts[s] == stage_layers[s]) counts[s++] = 0;
    if (s == counts.size()) return;
    ++counts[s];
  }
}

/// What the search may choose among for a plan with the fewest recomputed layers: with one stage on each rank any
/// counts; with several those that are as equal as their stages' sizes let them be, lower stages first.
inline bool may_count(const Plan& plan, const std::vector<std::uint32_t>& counts) {
  const StageMap map = stage_map(plan);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      for (std::uint32_t d = 0; d < map.chunks; ++d) {
        const std::uint32_t low = std::min(map.stage(r, c), map.stage(r, d));
        const std::uint32_t high = std::max(map.stage(r, c), map.stage(r, d));
        if (low == high) continue;
        if (counts[low] < counts[high] && counts[low] < (*plan.stage_layers)[low]) return false;
        if (counts[low] > counts[high] + 1 && counts[high] < (*plan.stage_layers)[high]) return false;
      }
    }
  }
  return true;
}

/// The same Program with an eighth less of states or of parameters in host memory.
inline bool repeats(const Plan& plan, const Program& program, const ModelSpec& model, const Workload& workload) {
  const auto same_with = [&](std::uint32_t states, std::uint32_t parameters) {
    Plan less = plan;
    less.offload_states = states;
    less.offload_parameters = parameters;
    return lower(model, workload, less) == program;
  };
  const std::uint32_t states = *plan.offload_states, parameters = *plan.offload_parameters;
  return (parameters > 0 && same_with(states, parameters - 1)) ||
         (states > std::max(1U, parameters) && same_with(states - 1, parameters));
}

/// What a plan of the space may be at best: every count of recomputed layers, every eighth of activations in host
/// memory, lowered and estimated one after the other.
struct Settled {
  std::optional<Exact> best;          ///< with the least step of all that fit
  std::vector<std::uint32_t> counts;  ///< stage by stage the fewest with which it fits
  std::uint32_t activations = 8;      ///< likewise
};
inline Settled settle(Plan plan, std::uint64_t number, const ModelSpec& model, const Workload& workload,
                      const ClusterSpec& cluster, const Calibration& calibration) {
  Settled out;
  const auto consider_here = [&] {
    const Program program = lower(model, workload, plan);
    const PlannedRun run{model, workload, cluster, plan, {}, {}};
    Report report = estimate(run, program, CostModel(cluster, calibration, plan.mesh));
    judge_memory(report, run, program, calibration, {default_headroom(cluster, calibration), false});
    if (!report.fits) return;
    if (!out.best || report.step_time.base() < out.best->step) {
      out.best = Exact{number, report.step_time.base(), report.peak_memory_bytes};
    }
    out.activations = std::min(out.activations, *plan.offload_activations);
    if (!plan.recompute_layers) return;
    if (out.counts.empty()) out.counts = *plan.recompute_layers;
    for (std::size_t s = 0; s < out.counts.size(); ++s) {
      out.counts[s] = std::min(out.counts[s], (*plan.recompute_layers)[s]);
    }
  };
  // On every tier.
  const auto consider = [&] {
    if (!cluster.disk) return consider_here();
    for_each_tiers(plan, consider_here);
    set_tiers(plan, {});
  };
  if (*plan.offload_activations > 0) {
    for (plan.offload_activations = 1; *plan.offload_activations <= 8; ++*plan.offload_activations) consider();
  } else if (!plan.recompute_layers) {
    consider();
  } else {
    for_each_count(*plan.stage_layers, [&](const std::vector<std::uint32_t>& counts) {
      if (!may_count(plan, counts)) return;
      plan.recompute_layers = counts;
      consider();
    });
  }
  return out;
}

/// Lowers and estimates the given plans of a space, one after the other: no bound, no closed form, no threads.  Those
/// that fit, each at its best (settle).  Left out are plans that stand in the space
/// under another number, and those that another one with less in host memory outdoes (planner/outdone.hpp); `slower` is
/// called with the steps of either.
template <class Slower>
std::vector<Exact> brute_force(const Space& space, const ModelSpec& model, const Workload& workload,
                               ClusterSpec cluster, const Calibration& calibration, Slower&& slower) {
  if (!space.disks) cluster.disk.reset();
  std::vector<Exact> all;
  Bounder bounder(model, workload, cluster, calibration);
  for (std::uint64_t i = 0; i < space.count; ++i) {
    const Plan plan = plan_at(space, i);
    // Eighths that make the same counts as others.
    if (plan.recompute_layers && !has_open_counts(plan) && number_of(space, plan) != i) continue;
    const Settled at = settle(plan, i, model, workload, cluster, calibration);
    if (!at.best) continue;
    if (plan.recompute_layers) {
      const auto none = [](std::uint32_t n) { return n == 0; };
      const bool selective = plan.recompute == Recompute::selective;
      Plan counted = plan;
      counted.recompute_layers = at.counts;
      if (counts_are_all(space, counted)) continue;
      if (selective && std::all_of(at.counts.begin(), at.counts.end(), none)) continue;
    }
    if (*plan.offload_states > 0 && repeats(plan, lower(model, workload, plan), model, workload)) continue;
    Plan settled = plan;
    settled.offload_activations = at.activations;
    if (*plan.offload_activations == 0) settled.offload_activations = 0;
    if (plan.recompute_layers) settled.recompute_layers = at.counts;
    double step = 0;  // of the other one
    const bool outdone = is_outdone(settled, bounder, [&](Plan& less) {
      const Settled other = settle(less, i, model, workload, cluster, calibration);
      if (!other.best) return false;
      if (*less.offload_activations > 0) less.offload_activations = other.activations;
      if (less.recompute_layers) less.recompute_layers = other.counts;
      step = other.best->step;
      return true;
    });
    if (outdone) slower(at.best->step, step);
    if (!outdone) all.push_back(*at.best);
  }
  return all;
}

/// In the order of the objective.
inline std::vector<Exact> best_first(std::vector<Exact> all, Objective objective) {
  std::sort(all.begin(), all.end(), [&](const Exact& a, const Exact& b) {
    if (objective == Objective::memory && a.peak != b.peak) return a.peak < b.peak;
    return std::tie(a.step, a.number) < std::tie(b.step, b.number);
  });
  return all;
}

}  // namespace orrery::test
