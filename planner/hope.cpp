#include "planner/hope.hpp"

#include <algorithm>

#include "core/plan/recompute_modules.hpp"
#include "planner/openings.hpp"

namespace orrery {
namespace {

/// What holds at most so much more than there is room for may fit with a layer moved elsewhere.
constexpr double nearly = 1.15;

/// The plan with its states shared out, and with them in host memory.
std::vector<Plan> leaner_states(PricedPlans& plans, const Plan& plan) {
  std::vector<Plan> out;
  if (std::optional<Plan> shared = shared_out_further(plan)) out.push_back(std::move(*shared));
  if (plans.hosts) {
    Plan away = plan;
    away.offload_states = away.offload_parameters = 8;
    out.push_back(std::move(away));
  }
  std::erase_if(out, [&](const Plan& p) { return !plans.is_allowed(p); });
  return out;
}

/// The plan with everything done about what is kept of activations.
std::vector<Plan> leaner_activations(PricedPlans& plans, const Plan& plan) {
  std::vector<Plan> out(1, plan);
  set_recompute(out.back(), Recompute::full);
  if (plans.hosts) {
    out.push_back(plan);
    out.back().offload_activations = 8;
  }
  std::erase_if(out, [&](const Plan& p) { return !plans.is_allowed(p); });
  return out;
}

/// The step of what fits between two plans, where the second holds less.
double between(const Appraisal& none, const Appraisal& all, std::uint64_t room) {
  const double longer = std::max(0.0, static_cast<double>(all.step - none.step));
  return static_cast<double>(none.step) + part_that_fits(none, all, room) * longer;
}

/// The shortest step of the plans with all done that saves memory.
double step_of_leanest(PricedPlans& plans, const std::vector<Plan>& states) {
  auto least = static_cast<double>(never);
  if (!plans.hosts) return least;
  for (Plan plan : states) {
    set_recompute(plan, Recompute::full);
    plan.offload_activations = 8;
    plan.offload_states = 8;
    if (plan.zero_stage < 3) plan.offload_parameters = 8;
    if (!plans.is_allowed(plan)) continue;
    const PricedPlans::Known& all = plans.least({plan, Raised::nothing});
    const double held = all.valid ? static_cast<double>(all.what.peak) : static_cast<double>(never);
    if (held <= nearly * static_cast<double>(plans.room)) least = std::min(least, static_cast<double>(all.what.step));
  }
  return least;
}

}  // namespace

double fitting_step(PricedPlans& plans, const Plan& plan) {
  auto least = static_cast<double>(never);
  std::vector<Plan> states = leaner_states(plans, plan);
  states.insert(states.begin(), plan);
  for (const Plan& with : states) {
    const PricedPlans::Known& none = plans.least({with, Raised::nothing});
    if (!none.valid || static_cast<double>(none.what.step) >= least) continue;
    if (none.what.fits) {
      least = static_cast<double>(none.what.step);
      continue;
    }
    for (const Plan& lean : leaner_activations(plans, with)) {
      const PricedPlans::Known& all = plans.least({lean, Raised::nothing});
      if (!all.valid || static_cast<double>(all.what.peak) > nearly * static_cast<double>(plans.room)) continue;
      least = std::min(least, between(none.what, all.what, plans.room));
    }
  }
  return least < static_cast<double>(never) ? least : step_of_leanest(plans, states);
}

double least_held(PricedPlans& plans, const Plan& plan) {
  auto least = static_cast<double>(never);
  std::vector<Plan> states = leaner_states(plans, plan);
  if (states.empty()) states.push_back(plan);
  for (const Plan& with : states) {
    for (Plan& lean : leaner_activations(plans, with)) {
      lean.overlap_gradients = false;
      Appraiser& appraiser = plans.appraiser();
      if (appraiser.is_valid(lean)) least = std::min(least, static_cast<double>(appraiser.held(lean)));
    }
  }
  return least;
}

}  // namespace orrery
