#pragma once

#include <vector>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Cuts a chunk into parts whose gradients travel as one message, in the order
/// in which the last backward pass finishes them: the head, then layers
/// downwards, then the embedding; each of at least the plan's bucket size (the
/// last may be smaller).
///
/// Builds their blocks.  reduce: with sequence parallelism first the sum of
/// replicated parameters' partial gradients over the tensor axis, then
/// all-reduce over the axes of sum_axes; with ZeRO-1 (Rajbhandari et al., SC '20)
/// reduce-scatter over the data axis, then all-reduce of the part over the
/// others (hybrid sharding).  gather: with ZeRO-1, the updated weights.
[[nodiscard]] std::vector<Chunk> build_buckets(State&, std::uint32_t stage, const Chunk&);

}  // namespace orrery::lowering
