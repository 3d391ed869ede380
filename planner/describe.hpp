#pragma once

#include <string>

#include "core/plan/plan.hpp"

namespace orrery {

/// One line naming every decision of a plan:
/// "data 8 x pipeline 4 x tensor 8, microbatch 1, 1f1b, layers 20 20 20 20, ...".
[[nodiscard]] std::string describe(const Plan&);

}  // namespace orrery
