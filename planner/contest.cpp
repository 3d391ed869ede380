#include "planner/contest.hpp"

#include "planner/openings.hpp"

namespace orrery {

void Contest::look_at(Plan plan) {
  const SearchOptions& options = plans_->options;
  if (!plans_->is_allowed(plan)) {
    PlannedRun near = plans_->appraiser().run(plan);
    put_within(near, options.limits, options.dimensions);
    // What a schedule or a ZeRO stage brings with it may follow the limits; another one is not what was asked for.
    if (near.plan.schedule != plan.schedule || near.plan.zero_stage != plan.zero_stage ||
        near.plan.tensor != plan.tensor) {
      return;
    }
    plan = near.plan;
    if (!plans_->is_allowed(plan)) return;
  }
  const PricedPlans::Known* k = plans_->least_below({plan, Raised::nothing}, rating);
  if (k == nullptr) return;
  rating = plans_->rate(k->what);
  best = {plan, k->what.step, static_cast<double>(k->what.step)};
  fits = k->what.fits;
}

void Contest::look_around() {
  // A layer cut in another way may want another order.
  for (const auto& others : {orders_of, cuts_of, sequence_cuts_of, orders_of}) {
    for (const Plan& plan : others(best.plan)) look_at(plan);
  }
}

}  // namespace orrery
