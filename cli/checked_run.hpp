#pragma once

#include "cli/common.hpp"

namespace orrery {

/// Sets price, lanes and cores of a run's cluster, and checks its rules, for who knows the prices already.
void check_run(PlannedRun&, const CommonFlags&);

}  // namespace orrery
