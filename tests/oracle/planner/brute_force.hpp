#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"

namespace orrery::test {

struct Exact {
  std::uint64_t number = 0;
  double step = 0;
  std::uint64_t peak = 0;
};

/// Lowers and estimates the given plans of a space, one after the other: no
/// bound, no closed form, no threads.  Those that fit, in the order of the
/// objective.
inline std::vector<Exact> brute_force(const Space& space, const ModelSpec& model, const Workload& workload,
                                      const ClusterSpec& cluster, const Calibration& calibration, Objective objective) {
  std::vector<Exact> all;
  for (std::uint64_t i = 0; i < space.count; ++i) {
    const Plan plan = plan_at(space, i);
    const Program program = lower(model, workload, plan);
    const Report report =
        estimate({model, workload, cluster, plan, {}, {}}, program, CostModel(cluster, calibration, plan.mesh));
    if (!report.fits) continue;
    all.push_back({i, report.step_time.base(), report.peak_memory_bytes});
  }
  std::sort(all.begin(), all.end(), [&](const Exact& a, const Exact& b) {
    if (objective == Objective::memory && a.peak != b.peak) return a.peak < b.peak;
    return std::tie(a.step, a.number) < std::tie(b.step, b.number);
  });
  return all;
}

}  // namespace orrery::test
