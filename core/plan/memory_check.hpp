#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Rules of check() about choices that save device memory: recomputed layers by stage, offloading. Requires sizes that
/// are in range.
void check_memory_choices(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
