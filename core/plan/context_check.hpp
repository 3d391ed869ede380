#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// The rules of the context axis, a part of check(): the sequence has equal
/// parts, and the attention algorithm, the kernel and the heads suit it.
/// Requires sizes that are in range.
void check_context(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
