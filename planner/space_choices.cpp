#include <algorithm>

#include "planner/space.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {

void choose(Plan& plan, const BlockChoice& choice) {
  plan.attention = choice.attention;
  plan.recompute = choice.recompute;
  plan.recompute_layers.reset();
  if (choice.fewest || choice.recomputed_eighths > 0) plan.recompute_layers.emplace();
  plan.offload_activations = 0;
  if (choice.offload) plan.offload_activations.reset();
  plan.sequence_parallel = choice.sequence_parallel;
  plan.context = choice.context;
  plan.zigzag = choice.zigzag;
  plan.inner_ring = choice.inner_ring;
  plan.save_gathered = choice.save_gathered;
}
void choose(Plan& plan, const ScheduleChoice& choice) {
  plan.schedule = choice.schedule;
  plan.chunks = choice.chunks;
}
void choose(Plan& plan, const StateChoice& choice) {
  plan.zero_stage = choice.zero_stage;
  plan.reshard_after_forward = choice.reshard_after_forward;
  plan.prefetch = choice.prefetch;
  plan.overlap_gradients = choice.overlap_gradients;
  plan.offload_states = choice.offload_states;
  plan.offload_parameters = choice.offload_parameters;
  plan.parameter_chunk = choice.parameter_chunk;
}

void start_fewest(Plan& plan, const BlockChoice& choice) {
  if (plan.recompute_layers) {
    plan.recompute_layers->clear();
    for (const std::uint32_t layers : *plan.stage_layers) {
      plan.recompute_layers->push_back(offloaded_layers(layers, choice.recomputed_eighths));
    }
  }
  if (plan.offload_activations != 0U) plan.offload_activations = 1;
}

bool repeats_other_counts(const std::vector<std::uint32_t>& stage_layers, std::uint32_t eighths) {
  const auto as_many = [&](std::uint32_t others) {
    return std::all_of(stage_layers.begin(), stage_layers.end(), [&](std::uint32_t layers) {
      return offloaded_layers(layers, eighths) == offloaded_layers(layers, others);
    });
  };
  return as_many(eighths - 1) || as_many(8);
}

bool repeats_less_offloaded(const Plan& plan) {
  const auto as_many = [&](std::uint32_t eighths) {
    return std::all_of(plan.stage_layers->begin(), plan.stage_layers->end(), [&](std::uint32_t layers) {
      return offloaded_layers(layers, eighths) == offloaded_layers(layers, eighths - 1);
    });
  };
  const std::uint32_t states = *plan.offload_states, parameters = *plan.offload_parameters;
  return (parameters > 0 && as_many(parameters)) || (states > parameters && states < 8 && as_many(states));
}

bool counts_are_all(const Space& space, const Plan& plan) {
  return space.prediction_modules == 0 && *plan.recompute_layers == *plan.stage_layers;
}

void tidy_counts(const Space& space, Plan& plan) {
  if (!plan.recompute_layers) return;
  if (counts_are_all(space, plan)) {
    plan.recompute_layers.reset();
  } else if (std::all_of(plan.recompute_layers->begin(), plan.recompute_layers->end(),
                         [](std::uint32_t n) { return n == 0; })) {
    plan.recompute_layers.reset();
    plan.recompute = Recompute::none;
  }
}

}  // namespace orrery
