#pragma once

#include <vector>

#include "sim/bound/copied_passes.hpp"
#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"

namespace orrery {

/// What copying for a layer takes.
[[nodiscard]] CopyTimes copy_times(const Plan&, const LayerCosts&, const MeshCosts&, StateCosts&);

/// Times of every virtual stage of a plan on the mesh entered.  With ZeRO 0 and 1 nothing but `clear` depends on how
/// states are kept, and copies of weights from host memory.
///
/// What ZeRO-2 and 3 add counts where compute waits for it.  In front of a block stand a gather, a clear and, without
/// overlap, the reduction of the block before, beside each other.  Those of a pass's first block may run before its
/// message arrives.
void stage_times(std::vector<StageTimes>& out, const Plan&, const StageMap&, const std::vector<StageShare>&,
                 const LayerCosts&, MeshCosts&, StateCosts&);

}  // namespace orrery
