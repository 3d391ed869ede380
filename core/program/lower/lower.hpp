#pragma once

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"

namespace orrery {

/// Lowers a plan into the Program that sim/ prices and exec/ runs.
///
/// Requires a resolved plan that passes check(plan, model, workload).  Does not
/// see the cluster: the same Program priced on two clusters is a controlled
/// experiment.  Same input, same Program, to the byte.
[[nodiscard]] Program lower(const ModelSpec&, const Workload&, const Plan&);

}  // namespace orrery
