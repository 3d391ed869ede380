#pragma once

#include "core/record/compare.hpp"
#include "core/record/profiled_step.hpp"

namespace orrery {

/// A predicted step of the program beside one that a profiler recorded of another training program: the step, what
/// ranks spend it on, and the time of each WorkKind, collectives by the size of their group (of all sizes together
/// where the profile does not tell it).  Means over the ranks that were profiled;
/// for a rank that the prediction has no trace of, one of its class stands.
///
/// Memory is shown where it was recorded and never judged: the profile has what PyTorch gave out over the whole
/// recording, the prediction what lives in a step.
[[nodiscard]] Comparison compare(const Trace& predicted, const Program&, const ProfiledStep& measured,
                                 const Tolerance& = {});

}  // namespace orrery
