#pragma once

#include <algorithm>

#include "core/plan/plan.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {

/// Whether so much in host memory that a plan with less of it is no slower and fits (docs/planner.md):
///  * activations wait there, and without any the plan fits with as few recomputed layers;
///  * states live there, more than parameters, and with an eighth less it fits with as few recomputed layers and
///    activations there, where an eighth more never shortens the step;
///  * parameters live there, of which none are gathered behind the update, and so it fits with states and parameters on
///    the device, under the same condition.
/// `fits(plan)` says whether the other one does, and gives it its recomputed layers and activations.  The plan has its
/// own.
template <class Fits>
[[nodiscard]] bool is_outdone(const Plan& plan, Bounder& bounder, Fits&& fits) {
  // With at most the plan's own recomputed layers, and from so many eighths of activations on at most its own.
  const auto fits_with_as_few = [&](Plan less, std::uint32_t activations) {
    less.offload_activations = activations;
    if (has_open_counts(less)) std::fill(less.recompute_layers->begin(), less.recompute_layers->end(), 0U);
    if (!fits(less) || *less.offload_activations > *plan.offload_activations) return false;
    if (!plan.recompute_layers) return true;
    return std::equal(less.recompute_layers->begin(), less.recompute_layers->end(), plan.recompute_layers->begin(),
                      [](std::uint32_t a, std::uint32_t b) { return a <= b; });
  };
  const auto fits_with = [&](std::uint32_t states, std::uint32_t parameters) {
    Plan less = plan;
    less.offload_states = states;
    less.offload_parameters = parameters;
    return fits_with_as_few(less, *plan.offload_activations > 0 ? 1 : 0);
  };
  if (*plan.offload_activations > 0 && fits_with_as_few(plan, 0)) return true;
  const std::uint32_t states = *plan.offload_states, parameters = *plan.offload_parameters;
  const bool gathers = (plan.zero_stage == 1 || plan.zero_stage == 2) && plan.mesh.size(Axis::data) > 1;
  const bool fewer_states = states > parameters, fewer_parameters = parameters > 0 && !gathers;
  if ((!fewer_states && !fewer_parameters) || !bounder.host_is_slower(plan)) return false;
  return (fewer_states && fits_with(states - 1, parameters)) || (fewer_parameters && fits_with(0, 0));
}

}  // namespace orrery
