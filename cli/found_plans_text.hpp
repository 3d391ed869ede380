#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "planner/search.hpp"

namespace orrery {

/// The plans that a search found, best first: side by side what each decides and what is predicted for it, the memory
/// of the best one's stages, and where the others lose against it.  `priced`: with the cost of a step.
[[nodiscard]] std::string found_plans_text(const std::vector<FoundPlan>&, const Workload&, bool priced);

}  // namespace orrery
