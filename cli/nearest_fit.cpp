#include "cli/nearest_fit.hpp"

#include <fmt/format.h>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/search_space.hpp"
#include "planner/describe.hpp"
#include "planner/search.hpp"

namespace orrery {
namespace {

/// The plan that takes the least memory, whether it fits or not.
std::optional<Plan> leanest(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                            const Calibration& calibration, const SearchLimits& limits, Progress& bar) {
  SearchOptions options;
  options.limits = limits;
  options.objective = Objective::memory;
  options.judge_memory = false;
  options.top = 1;
  options.simulate = false;
  options.cancel = &interrupted();
  options.progress = [&](const SearchProgress& p) { bar.show("least memory", p.done, p.total); };
  SearchResult found = search(model, workload, cluster, calibration, options);
  if (!found.complete || found.plans.empty()) return std::nullopt;
  return std::move(found.plans.front().plan);
}

}  // namespace

NearestFit nearest_fit(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                       const Calibration& calibration, Bytes headroom, const SearchLimits& searched) {
  // They tell enough, and soon.
  const SearchLimits plain = plainest_within(searched);
  Progress bar;
  NearestFit out;
  const auto judged = [&](const ClusterSpec& on, Plan plan) {
    const PlannedRun run{model, workload, on, plan, {}, {}};
    MemoryVerdict memory = memory_verdict(run, lower(model, workload, plan), calibration, {headroom, false});
    return PlanMemory{std::move(plan), memory};
  };
  if (auto plan = leanest(model, workload, cluster, calibration, plain, bar)) {
    out.here = judged(cluster, std::move(*plan));
  }
  SearchOptions options;
  options.limits = plain;
  options.top = 1;
  options.simulate = false;
  options.headroom = headroom;
  options.cancel = &interrupted();
  for (std::uint64_t factor = 2; factor <= 64; factor *= 2) {
    const std::uint64_t gpus = cluster.devices() * factor;
    Diagnostics ignored;  // the cluster may not grow that far
    auto larger = gpus <= max_devices ? resized(cluster, static_cast<std::uint32_t>(gpus), ignored) : std::nullopt;
    if (!larger) break;
    if (interrupted().load()) {
      out.interrupted_at = gpus;
      break;
    }
    options.progress = [&](const SearchProgress& p) {
      bar.settled(fmt::format("try {} GPUs", gpus), p.done, p.total, "");
    };
    const SearchResult found = search(model, workload, *larger, calibration, options);
    if (!found.complete) {
      out.interrupted_at = gpus;
      break;
    }
    if (found.plans.empty()) continue;
    out.fits = judged(*larger, found.plans.front().plan);
    out.on = std::move(*larger);
    break;
  }
  return out;
}

std::string nearest_text(const NearestFit& fit) {
  std::string out;
  if (fit.here) {
    out += fmt::format("Nearest of plans with data, 1D tensor and pipeline axes: {} needs {}.\n",
                       describe(fit.here->plan), text_of(fit.here->memory));
  }
  if (fit.fits) {
    out += fmt::format("With --gpus {} (doublings were tried) it fits: {} needs {}.\n", fit.on->devices(),
                       describe(fit.fits->plan), text_of(fit.fits->memory));
  }
  if (fit.interrupted_at) out += fmt::format("Interrupted while looking at {} GPUs.\n", *fit.interrupted_at);
  return out;
}

}  // namespace orrery
