#include "cli/nearest_fit.hpp"

#include <fmt/format.h>

#include <functional>
#include <limits>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "core/base/diagnostics.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/library.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t no_plan = std::numeric_limits<std::uint64_t>::max();

/// Tells `progress` how many plans of how many were looked at; empty when interrupted.
std::optional<Leanest> leanest(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                               const Calibration& c,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const Space space = make_space(model, workload, cluster, basic_limits());
  Bounder bounder(model, workload, cluster, c);
  Leanest best{no_plan, {}};
  for (std::uint64_t n = 0; n < space.count; ++n) {
    if (interrupted().load()) return std::nullopt;
    if (n % 1024 == 0) progress(n, space.count);
    Plan plan = plan_at(space, n);
    const std::uint64_t peak = bounder.peak_memory(plan);
    if (peak < best.peak) best = {peak, std::move(plan)};
  }
  return best;
}

}  // namespace

NearestFit nearest_fit(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                       const Calibration& calibration) {
  Progress bar;
  NearestFit out;
  for (std::uint64_t factor = 1; factor <= 64; factor *= 2) {
    const std::uint64_t gpus = cluster.devices() * factor;
    Diagnostics ignored;  // the cluster may not grow that far
    const auto larger =
        gpus <= max_devices ? resized(cluster, static_cast<std::uint32_t>(gpus), ignored) : std::nullopt;
    if (!larger) break;
    auto found = leanest(model, workload, *larger, calibration, [&](std::uint64_t done, std::uint64_t total) {
      bar.show(fmt::format("try {} GPUs", gpus), done, total);
    });
    if (!found) {
      out.interrupted_at = gpus;
      break;
    }
    if (found->peak == no_plan) continue;
    if (factor == 1) {
      out.here = std::move(found);
    } else if (static_cast<double>(found->peak) <= least_memory(cluster).base()) {
      out.fits = std::move(found);
      out.on = *larger;
      break;
    }
  }
  return out;
}

std::string nearest_text(const NearestFit& fit, bool of_basic) {
  const auto bytes = [](std::uint64_t n) { return short_text(Bytes::of(static_cast<double>(n))); };
  std::string out;
  if (fit.here) {
    out += fmt::format("Nearest{}: {} on its fullest device, with {}.\n",
                       of_basic ? " of plans with data, 1D tensor and pipeline axes" : "", bytes(fit.here->peak),
                       describe(fit.here->plan));
  }
  if (fit.fits) {
    out += fmt::format("With --gpus {} (doublings were tried) it fits: {} with {}.\n", fit.on->devices(),
                       bytes(fit.fits->peak), describe(fit.fits->plan));
  }
  if (fit.interrupted_at) out += fmt::format("Interrupted while looking at {} GPUs.\n", *fit.interrupted_at);
  return out;
}

}  // namespace orrery
