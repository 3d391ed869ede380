#pragma once

#include <vector>

#include "sim/bound/copied_passes.hpp"
#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"

namespace orrery {

/// What copying for a layer takes.
[[nodiscard]] CopyTimes copy_times(const Plan&, const LayerCosts&, const MeshCosts&, StateCosts&);

/// How much sooner a stage's backward pass may be done in chunks of parameters, as far as its blocks differ from those
/// of other plans: norms make their weights' gradients last, beside collectives, and behind what goes to the stage
/// below.  Where the plan leaves chunks open as if it had them.
[[nodiscard]] Picoseconds less_in_chunks(const Plan&, const StageShare&, const LayerCosts&, bool concurrent_lanes);

/// Times of every virtual stage of a plan on the mesh entered.  With ZeRO 0 and 1 nothing but `clear` depends on how
/// states are kept, and copies of weights from host memory.
///
/// What ZeRO-2 and 3 add counts where compute waits for it.  In front of a block stand a gather, a clear and, without
/// overlap, the reduction of the block before, beside each other.  Those of a pass's first block may run before its
/// message arrives.  In chunks of parameters gradients are cleared inside of a block, which delays it as much.
void stage_times(std::vector<StageTimes>& out, const Plan&, const StageMap&, const std::vector<StageShare>&,
                 const LayerCosts&, MeshCosts&, StateCosts&);

}  // namespace orrery
