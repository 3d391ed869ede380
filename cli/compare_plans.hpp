#pragma once

#include <string>
#include <vector>

#include "cli/common.hpp"

namespace orrery {

/// The plan with what a plan in one line changes, resolved and lowered.
[[nodiscard]] LoadedPlan changed_plan(const LoadedPlan&, const std::string& words, const CommonFlags&);

/// Estimates plans and sets them side by side, the first as A. Status 1 where one of them does not fit.
[[nodiscard]] int tell_plans(const std::vector<LoadedPlan>&, const CommonFlags&);

}  // namespace orrery
