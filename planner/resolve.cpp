#include "planner/resolve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/best_split.hpp"
#include "planner/complete.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

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
  ResolvedPlan out{given, {}, {}};
  Plan& plan = out.plan;
  complete(plan, model, workload);
  const std::uint64_t sums = size(plan.mesh, batch_axes) * plan.mesh.size(Axis::context);
  if (!given.gradient_bucket) {
    out.resolved.push_back({"gradient_bucket", exact_text(*plan.gradient_bucket),
                            "40 million gradients, or a million for every data-parallel replica where that is more"});
  }
  if (!given.overlap_gradients) {
    out.resolved.push_back(
        {"overlap_gradients", *plan.overlap_gradients ? "true" : "false",
         sums > 1 ? "reductions run beside the last backward pass" : "one replica has nothing to reduce"});
  }
  if (!given.attention) {
    out.resolved.push_back(
        {"attention", std::string(name_of(*plan.attention)),
         plan.context == ContextAlgorithm::ring_self_attention ? "ring self-attention keeps its scores"
         : recomputes_scores(plan) ? "selective recomputation drops scores, which the flash kernel never keeps"
                                   : "the flash kernel keeps no scores"});
  }
  if (!given.stage_layers) {
    Plan on_device = plan;  // what is to be offloaded shows later
    on_device.offload_states = plan.offload_states.value_or(0);
    on_device.offload_parameters = plan.offload_parameters.value_or(0);
    on_device.offload_activations = plan.offload_activations.value_or(0);
    BestSplit best = best_split(on_device, model, workload, cluster, calibration);
    plan.stage_layers = std::move(best.layers);
    on_device.stage_layers = plan.stage_layers;
    if (on_device == plan) out.program = std::move(best.program);
    // First in the order of a plan file, last to be known: it depends on the others.
    out.resolved.insert(out.resolved.begin(),
                        {"stage_layers", fmt::format("[{}]", fmt::join(*plan.stage_layers, ", ")),
                         plan.stage_layers->size() == 1
                             ? "one stage holds all layers"
                             : "balanced, with the head counted; no layer more or less at either end is faster"});
  }
  if (!given.parameter_chunk) {
    out.resolved.push_back({"parameter_chunk", exact_text(*plan.parameter_chunk),
                            "a chunk for each layer, which pads the least and sends the fewest messages"});
  }
  decide_offload(plan, model, workload, cluster, calibration, out.resolved);
  return out;
}

}  // namespace orrery
