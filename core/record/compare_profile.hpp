#pragma once

#include "core/record/compare.hpp"
#include "core/record/profiled_step.hpp"

namespace orrery {

/// Compares a predicted step with a step that a profiler recorded of another training program. It shows the step, what
/// ranks spend it on, and the time of each WorkKind. Collectives are split by the size of their group (or taken
/// together where the profile does not tell it). Figures are means over the ranks that were profiled; where the
/// prediction has no trace of a rank, one of its class stands in.
///
/// Memory is shown where it was recorded but never judged: the profile has what PyTorch gave out over the whole
/// recording, the prediction what lives in a step.
[[nodiscard]] Comparison compare(const Trace& predicted, const Program&, const ProfiledStep& measured,
                                 const Tolerance& = {});

}  // namespace orrery
