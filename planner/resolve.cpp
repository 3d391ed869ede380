#include "planner/resolve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/live_memory.hpp"
#include "planner/gradient_bucket.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {
namespace {

// How far below the balanced share the first and the last stage may lie.
constexpr std::uint32_t resolve_reach = 16;

/// The split with the least bound, of those that fit in memory if any does; of
/// a plan that has no bound the most even one.  Ties: the one whose largest and smallest stage differ least, then
/// larger stages first.
std::vector<std::uint32_t> best_split(Plan plan, const ModelSpec& model, const Workload& workload,
                                      const ClusterSpec& cluster, const Calibration& calibration) {
  Bounder bounder(model, workload, cluster, calibration);
  const std::uint32_t stages = plan.mesh.size(Axis::pipeline) * plan.chunks;
  std::vector<std::uint32_t> best;
  std::tuple<bool, Picoseconds, std::uint32_t> least;
  // Descending, so that of equals the one with larger stages first stands.
  auto splits = uneven_stages(model.layers, stages, resolve_reach);
  const bool bounded = bound_covers(plan, model);
  std::sort(splits.rbegin(), splits.rend());
  for (const std::vector<std::uint32_t>& split : splits) {
    plan.stage_layers = split;
    const bool fits = !bounded || static_cast<double>(bounder.peak_memory(plan)) <= cluster.device.memory.base();
    const auto [low, high] = std::minmax_element(split.begin(), split.end());
    const std::tuple rating(!fits, bounded ? bounder.step_time(plan) : Picoseconds{0}, *high - *low);
    if (best.empty() || rating < least) {
      best = split;
      least = rating;
    }
  }
  return best;
}

/// Largest device peak of any rank.
std::uint64_t device_peak(const Plan& plan, const ModelSpec& model, const Workload& workload) {
  const Program program = lower(model, workload, plan);
  LiveMemory memory;
  memory.read(program);
  std::uint64_t most = 0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) most = std::max(most, memory.peak(program, c).peak);
  return most;
}

/// Puts the states of as few eighths of the layers in host memory as the
/// device's memory asks for: every one costs copies and a slower update.
Resolution decide_states(Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster) {
  const auto text = [](double bytes) { return short_text(Bytes::of(bytes)); };
  const double room = cluster.device.memory.base();
  double peak = 0.0;
  for (std::uint32_t eighths = 0; eighths <= 8; ++eighths) {
    plan.offload_states = eighths;
    peak = static_cast<double>(device_peak(plan, model, workload));
    if (peak > room) continue;
    return {"offload_states", fmt::to_string(eighths),
            eighths == 0 ? fmt::format("all fits: {} of {}", text(peak), text(room))
                         : fmt::format("the fewest with which the plan fits: {} of {}", text(peak), text(room))};
  }
  return {"offload_states", "8",
          fmt::format("even so the plan needs {}, and the device has {}", text(peak), text(room))};
}

}  // namespace

ResolvedPlan resolve(const Plan& given, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                     const Calibration& calibration) {
  ResolvedPlan out{given, {}};
  Plan& plan = out.plan;
  const bool decide_offload = !plan.offload_states;
  if (decide_offload) plan.offload_states = 0;
  const auto replicas = static_cast<std::uint32_t>(size(plan.mesh, batch_axes));
  const std::uint32_t stages = plan.mesh.size(Axis::pipeline) * plan.chunks;
  if (!plan.gradient_bucket) {
    plan.gradient_bucket = default_gradient_bucket(workload, replicas);
    out.resolved.push_back({"gradient_bucket", exact_text(*plan.gradient_bucket),
                            "40 million gradients, or a million for every data-parallel replica where that is more"});
  }
  if (!plan.overlap_gradients) {
    const bool sums = std::uint64_t{replicas} * plan.mesh.size(Axis::context) > 1;
    plan.overlap_gradients = sums;
    out.resolved.push_back(
        {"overlap_gradients", sums ? "true" : "false",
         sums ? "reductions run beside the last backward pass" : "one replica has nothing to reduce"});
  }
  if (!plan.attention) {
    const bool selective = plan.recompute == Recompute::selective;
    const bool scores = plan.context == ContextAlgorithm::ring_self_attention;
    plan.attention = scores || selective ? AttentionKernel::unfused : AttentionKernel::flash;
    out.resolved.push_back({"attention", std::string(name_of(*plan.attention)),
                            scores      ? "ring self-attention keeps its scores"
                            : selective ? "selective recomputation drops scores, which the flash kernel never keeps"
                                        : "the flash kernel keeps no scores"});
  }
  if (!plan.stage_layers) {
    plan.stage_layers = best_split(plan, model, workload, cluster, calibration);
    // First in the order of a plan file, last to be known: it depends on the others.
    out.resolved.insert(out.resolved.begin(),
                        {"stage_layers", fmt::format("[{}]", fmt::join(*plan.stage_layers, ", ")),
                         stages == 1                 ? "one stage holds all layers"
                         : bound_covers(plan, model) ? "the least bound on the step, with embedding and head counted"
                                                     : "the most even split"});
  }
  if (decide_offload) out.resolved.push_back(decide_states(plan, model, workload, cluster));
  return out;
}

}  // namespace orrery
