#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// The rules of what a plan does to hold less in device memory, a part of
/// check(): recomputed layers by stage, offloading.
/// Requires sizes that are in range.
void check_memory_choices(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
