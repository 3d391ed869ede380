#pragma once

#include <vector>

#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"

namespace orrery {

/// Times of every virtual stage of a plan on the mesh entered.
///
/// What ZeRO-2 and 3 add counts where compute waits for it.  In front of a block stand a gather, a clear and, without
/// overlap, the reduction of the block before, beside each other.  Those of a pass's first block may run before its
/// message arrives.
[[nodiscard]] std::vector<StageTimes> stage_times(const Plan&, const StageMap&, MeshCosts&, StateCosts&);

}  // namespace orrery
