#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// The rules of check() about layers of experts: the expert axis, the parts into which it and the tensor axis cut
/// experts, and the workload's routing. Requires a sound mesh.
void check_mixture(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
