#include "cli/replan.hpp"

#include <fmt/format.h>

#include "core/base/counted.hpp"

namespace orrery {

std::optional<FoundPlan> replanned(const PlannedRun& run, const ClusterSpec& on, const Calibration& calibration,
                                   const std::atomic<bool>* cancel) {
  SearchOptions options;
  options.limits = plainest_limits();
  options.top = 1;
  options.simulate = false;
  options.threads = 1;
  options.cancel = cancel;
  SearchResult found = search(run.model, run.workload, on, calibration, options);
  if (!found.complete || found.plans.empty()) return std::nullopt;
  return std::move(found.plans.front());
}

LoadedPlan plan_on_fewer(const PlannedRun& run, std::uint32_t most, const CommonFlags& flags,
                         const std::atomic<bool>* cancel) {
  std::optional<FoundPlan> best;
  ClusterSpec on;
  for (std::uint32_t devices = most; devices > most / 2; --devices) {
    Diagnostics no_such_size;
    std::optional<ClusterSpec> cluster = resized(*run.cluster, devices, no_such_size);
    if (!cluster) continue;  // parts of nodes, which the cluster does not have
    const CalibrationChoice prices = calibration_of(flags, library_of(flags), *cluster, run.workload.precision);
    std::optional<FoundPlan> found = replanned(run, *cluster, prices.calibration, cancel);
    if (!found || (best && best->report.step_time <= found->report.step_time)) continue;
    best = std::move(found);
    on = std::move(*cluster);
  }
  if (!best) {
    const std::string ranks = counted(most, "rank");
    if (cancel != nullptr && cancel->load()) throw Error("the search for a plan for " + ranks + " was interrupted");
    throw Error("no plan fits " + ranks);
  }
  UnresolvedPlan next{run, calibration_of(flags, library_of(flags), on, run.workload.precision)};
  next.run.cluster = std::move(on);
  next.run.plan = std::move(best->plan);
  next.run.plan.name = run.plan.name;
  return resolved_and_lowered(std::move(next));
}

}  // namespace orrery
