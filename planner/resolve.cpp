#include "planner/resolve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "core/program/lower/layer_bytes.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/node_kinds.hpp"
#include "planner/gradient_bucket.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

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
  struct Rated {
    std::vector<std::uint32_t> split;
    bool fits;
    Picoseconds step;
    std::uint32_t unevenness;
  };
  std::vector<Rated> rated;
  // Descending, so that of equals the one with larger stages first stands.
  auto splits = uneven_stages(model.layers, stages, resolve_reach);
  const bool bounded = bound_covers(plan, model, workload);
  std::sort(splits.rbegin(), splits.rend());
  for (const std::vector<std::uint32_t>& split : splits) {
    plan.stage_layers = split;
    const bool fits = !bounded || static_cast<double>(bounder.peak_memory(plan)) <= least_memory(cluster).base();
    const auto [low, high] = std::minmax_element(split.begin(), split.end());
    std::uint32_t unevenness = *high - *low;
    if (!bounded && model.prediction_modules > 0) {
      // A module is a layer and a head, on the last stage.
      std::vector<std::uint32_t> loads = split;
      loads.back() += 2 * static_cast<std::uint32_t>(model.prediction_modules);
      const auto [least_load, most_load] = std::minmax_element(loads.begin(), loads.end());
      unevenness = *most_load - *least_load;
    }
    rated.push_back({split, fits, bounded ? bounder.step_time(plan) : Picoseconds{0}, unevenness});
  }
  const bool some_fit = std::any_of(rated.begin(), rated.end(), [](const Rated& r) { return r.fits; });
  std::erase_if(rated, [&](const Rated& r) { return r.fits != some_fit; });
  const auto faster = [](const Rated& a, const Rated& b) { return a.step < b.step; };
  const Picoseconds least = std::min_element(rated.begin(), rated.end(), faster)->step;
  // Closer than a thousandth, times say nothing about which is faster: the most even of those.
  std::erase_if(rated, [&](const Rated& r) { return r.step > least + least / 1000; });
  const auto more_even = [](const Rated& a, const Rated& b) {
    return std::tie(a.unevenness, a.step) < std::tie(b.unevenness, b.step);
  };
  return std::min_element(rated.begin(), rated.end(), more_even)->split;
}

/// Eighths of what is in host memory.
struct Eighths {
  std::uint32_t states = 0, parameters = 0, activations = 0;
};
bool at_most(const Eighths& a, const Eighths& b) {
  return a.states <= b.states && a.parameters <= b.parameters && a.activations <= b.activations;
}

/// Looks for places of states and activations with which a plan fits.
class Placement {
 public:
  Placement(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
            const Calibration& calibration)
      : calibration_(calibration), rules_{default_headroom(cluster, calibration), false} {
    run_.plan = plan;
    run_.model = model;
    run_.workload = workload;
    run_.cluster = cluster;
  }

  /// Those with which the plan fits, and with less of any it does not; fewest states first.
  [[nodiscard]] std::vector<Eighths> least() const {
    const auto range = [](const std::optional<std::uint32_t>& e) { return std::pair(e.value_or(0), e.value_or(8)); };
    const auto [states, all_states] = range(run_.plan.offload_states);
    const auto [parameters, all_parameters] = range(run_.plan.offload_parameters);
    const auto [activations, all_activations] = range(run_.plan.offload_activations);
    std::vector<Eighths> out;
    for (std::uint32_t s = states; s <= all_states; ++s) {
      for (std::uint32_t p = parameters; p <= std::min(s, all_parameters); ++p) {
        for (std::uint32_t a = activations; a <= all_activations; ++a) {
          const Eighths here{s, p, a};
          if (std::any_of(out.begin(), out.end(), [&](const Eighths& e) { return at_most(e, here); })) break;
          if (fits(here)) out.push_back(here);
        }
      }
    }
    return out;
  }

  /// All that may be in host memory.
  [[nodiscard]] Eighths most() const {
    const Plan& p = run_.plan;
    const std::uint32_t states = p.offload_states.value_or(8);
    return {states, p.offload_parameters.value_or(p.zero_stage == 3 ? 0 : states), p.offload_activations.value_or(8)};
  }

  /// The one with the least estimated step; of equals the first.
  [[nodiscard]] Eighths quickest(const std::vector<Eighths>& list) const {
    if (list.size() == 1) return list.front();
    const CostModel costs(*run_.cluster, calibration_, run_.plan.mesh, run_.plan.placement,
                          run_.plan.collective_algorithm);
    Estimator estimator;
    Eighths best;
    std::optional<Seconds> least;
    for (const Eighths& e : list) {
      Plan ignored;
      const Seconds time = estimator.step_time(program(e, ignored), costs);
      if (least && *least <= time) continue;
      least = time;
      best = e;
    }
    return best;
  }

  /// What the plan needs of what there is.
  [[nodiscard]] std::string memory(const Eighths& e) const {
    PlannedRun run = run_;
    const Program p = program(e, run.plan);
    return text_of(memory_verdict(run, p, calibration_, rules_));
  }

 private:
  /// With these; `plan` becomes the plan that has them.
  [[nodiscard]] Program program(const Eighths& e, Plan& plan) const {
    plan = run_.plan;
    plan.offload_states = e.states;
    plan.offload_parameters = e.parameters;
    plan.offload_activations = e.activations;
    return lower(run_.model, run_.workload, plan);
  }
  [[nodiscard]] bool fits(const Eighths& e) const {
    PlannedRun run = run_;
    const Program p = program(e, run.plan);
    return fits_memory(run, p, calibration_, rules_);
  }

  const Calibration& calibration_;
  MemoryRules rules_;
  PlannedRun run_;
};

/// Closes what the plan leaves open of what is in host memory.
void decide_offload(Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                    const Calibration& calibration, std::vector<Resolution>& resolved) {
  struct Open {
    const char* key;
    std::optional<std::uint32_t>* eighths;
    std::uint32_t Eighths::*choice;
  };
  std::vector<Open> open = {{"offload_states", &plan.offload_states, &Eighths::states},
                            {"offload_parameters", &plan.offload_parameters, &Eighths::parameters},
                            {"offload_activations", &plan.offload_activations, &Eighths::activations}};
  std::erase_if(open, [](const Open& o) { return o.eighths->has_value(); });
  if (open.empty()) return;
  const Placement placement(plan, model, workload, cluster, calibration);
  const std::vector<Eighths> fitting = placement.least();
  const Eighths chosen = fitting.empty() ? placement.most() : placement.quickest(fitting);
  const std::string memory = placement.memory(chosen);
  std::string reason = "the fewest with which the plan fits: " + memory;
  if (fitting.empty()) {
    reason = "even so the plan does not fit: it needs " + memory;
  } else if (std::all_of(open.begin(), open.end(), [&](const Open& o) { return chosen.*o.choice == 0; })) {
    reason = "all fits: " + memory;
  } else if (fitting.size() > 1) {
    reason = fmt::format("the least estimated step of the {} least choices that fit: {}", fitting.size(), memory);
  }
  for (const Open& o : open) {
    *o.eighths = chosen.*o.choice;
    resolved.push_back({o.key, fmt::to_string(chosen.*o.choice), reason});
  }
}

}  // namespace

ResolvedPlan resolve(const Plan& given, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                     const Calibration& calibration) {
  ResolvedPlan out{given, {}};
  Plan& plan = out.plan;
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
    Plan on_device = plan;  // what is to be offloaded shows later
    on_device.offload_states = plan.offload_states.value_or(0);
    on_device.offload_parameters = plan.offload_parameters.value_or(0);
    on_device.offload_activations = plan.offload_activations.value_or(0);
    if (!plan.parameter_chunk) on_device.parameter_chunk = Bytes();
    plan.stage_layers = best_split(on_device, model, workload, cluster, calibration);
    // First in the order of a plan file, last to be known: it depends on the others.
    out.resolved.insert(out.resolved.begin(),
                        {"stage_layers", fmt::format("[{}]", fmt::join(*plan.stage_layers, ", ")),
                         stages == 1 ? "one stage holds all layers"
                         : bound_covers(on_device, model, workload)
                             ? "the least bound on the step to a thousandth, with embedding and head counted"
                             : "the most even split"});
  }
  if (!plan.parameter_chunk) {
    // Chunks do not span layers.
    plan.parameter_chunk = whole_layer_bytes(plan, model, workload);
    out.resolved.push_back({"parameter_chunk", exact_text(*plan.parameter_chunk),
                            "a chunk for each layer, which pads the least and sends the fewest messages"});
  }
  decide_offload(plan, model, workload, cluster, calibration, out.resolved);
  return out;
}

}  // namespace orrery
