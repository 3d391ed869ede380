#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// The part of check() about tensor parallelism on a grid of ranks: its axes
/// row, column and depth have sizes q, q and d, and cut the model's widths into
/// equal parts.  Requires a mesh and specs whose sizes are in range.
void check_grid(const Plan&, const ModelSpec&, Diagnostics&);

}  // namespace orrery
