#pragma once

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Updates a module by Adafactor: sums of squared gradients over the rows and
/// columns of its matrices, made whole over the ranks that hold parts of them;
/// their means over steps, and the size of the update that follows from these;
/// the update.  Parts may be cut any way, flat ones of ZeRO too: each rank adds
/// its elements where they stand in the whole matrix.
///
/// A message for each segment, as with trust ratios: both copies of a tied
/// table then have the same sums to the bit.  By the host where states live there.
void build_adafactor(State&, BlockBuilder&, const Module&, Home);

}  // namespace orrery::lowering
