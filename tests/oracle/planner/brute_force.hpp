#pragma once

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"

namespace orrery::test {

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

/// Lowers and estimates the given plans of a space, one after the other: no
/// bound, no closed form, no threads.  Those that fit, in the order of the
/// objective.  Of a plan with the fewest recomputed layers every count of them
/// that the space speaks of, but those that are other plans of it; the best step.
inline std::vector<Exact> brute_force(const Space& space, const ModelSpec& model, const Workload& workload,
                                      const ClusterSpec& cluster, const Calibration& calibration, Objective objective) {
  std::vector<Exact> all;
  for (std::uint64_t i = 0; i < space.count; ++i) {
    Plan plan = plan_at(space, i);
    std::optional<Exact> best;
    const auto consider = [&] {
      const Program program = lower(model, workload, plan);
      const Report report =
          estimate({model, workload, cluster, plan, {}, {}}, program, CostModel(cluster, calibration, plan.mesh));
      if (!report.fits || (best && best->step <= report.step_time.base())) return;
      best = Exact{i, report.step_time.base(), report.peak_memory_bytes};
    };
    if (!plan.recompute_layers) {
      consider();
    } else {
      const bool selective = plan.recompute == Recompute::selective;
      bool without = false;
      for_each_count(*plan.stage_layers, [&](const std::vector<std::uint32_t>& counts) {
        if (without || counts == *plan.stage_layers || !may_count(plan, counts)) return;
        plan.recompute_layers = counts;
        const bool none = std::all_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n == 0; });
        consider();
        // The plan without stands elsewhere, and is no slower.
        without = none && selective && best.has_value();
      });
      if (without) best.reset();
    }
    if (best) all.push_back(*best);
  }
  std::sort(all.begin(), all.end(), [&](const Exact& a, const Exact& b) {
    if (objective == Objective::memory && a.peak != b.peak) return a.peak < b.peak;
    return std::tie(a.step, a.number) < std::tie(b.step, b.number);
  });
  return all;
}

}  // namespace orrery::test
