#pragma once

#include "planner/priced_plans.hpp"

// What a plan is likely to need once it fits, from a few estimates of it.

namespace orrery {

/// Picoseconds that the plan hardly takes less than once it fits: between its step and that with all done that saves
/// memory, in proportion to what it is short of.  `never` where that does not fit either.
[[nodiscard]] double fitting_step(PricedPlans&, const Plan&);
/// Bytes that the plan hardly holds less than, whatever is done.
[[nodiscard]] double least_held(PricedPlans&, const Plan&);

}  // namespace orrery
