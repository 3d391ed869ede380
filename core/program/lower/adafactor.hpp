#pragma once

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Updates a module by Adafactor in three steps. First come sums of squared gradients over the rows and columns of its
/// matrices, made whole over the ranks that hold parts of them. Then come their means over steps, and the size of the
/// update that follows from these. The last step is the update. Parts may be cut any way, also into the flat parts of
/// ZeRO: each rank adds its elements where they stand in the whole matrix.
///
/// Each segment has its own message, as with trust ratios: both copies of a tied table then have the same sums to the
/// bit. The host does this where states live there.
void build_adafactor(State&, BlockBuilder&, const Module&, Home);

}  // namespace orrery::lowering
