#include "cli/nearest_fit.hpp"

#include <fmt/format.h>

#include <functional>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/search.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {
namespace {

/// Tells `progress` how many plans of how many were looked at; empty without a plan, or when interrupted.
std::optional<Plan> leanest(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                            const Calibration& c, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const Space space = make_space(model, workload, cluster, basic_limits());
  Bounder bounder(model, workload, cluster, c);
  std::optional<Plan> best;
  std::uint64_t least = 0;
  for (std::uint64_t n = 0; n < space.count; ++n) {
    if (interrupted().load()) return std::nullopt;
    if (n % 1024 == 0) progress(n, space.count);
    Plan plan = plan_at(space, n);
    const std::uint64_t peak = bounder.peak_memory(plan);
    if (best && peak >= least) continue;
    least = peak;
    best = std::move(plan);
  }
  return best;
}

}  // namespace

NearestFit nearest_fit(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                       const Calibration& calibration, Bytes headroom) {
  Progress bar;
  NearestFit out;
  const auto judged = [&](const ClusterSpec& on, Plan plan) {
    const PlannedRun run{model, workload, on, plan, {}, {}};
    MemoryVerdict memory = memory_verdict(run, lower(model, workload, plan), calibration, {headroom, false});
    return PlanMemory{std::move(plan), memory};
  };
  if (auto plan = leanest(model, workload, cluster, calibration,
                          [&](std::uint64_t done, std::uint64_t total) { bar.show("least memory", done, total); })) {
    out.here = judged(cluster, std::move(*plan));
  }
  SearchOptions options;
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

std::string nearest_text(const NearestFit& fit, bool of_basic) {
  std::string out;
  if (fit.here) {
    out += fmt::format("Nearest{}: {} needs {}.\n", of_basic ? " of plans with data, 1D tensor and pipeline axes" : "",
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
