#pragma once

#include <vector>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Cuts a chunk into buckets, parts whose gradients travel as one message. They stand in the order in which the last
/// backward pass finishes them: the head, then layers downwards, then the embedding. Each is at least of the plan's
/// bucket size (the last may be smaller).
///
/// Builds their blocks. reduce: with sequence parallelism first the sum of replicated parameters' partial gradients
/// over the tensor axis, then all-reduce over the axes of sum_axes; with ZeRO-1 (Rajbhandari et al., SC '20)
/// reduce-scatter over own_axes, then all-reduce of the part over the others (hybrid sharding). gather: with ZeRO-1,
/// the updated weights. With ZeRO-2 and 3, reduce adds the scattered sum to the part after every microbatch; sums over
/// other axes wait for the last microbatch: combine. With a split backward pass, reduce takes the matrices of layers,
/// and reduce_first takes, before that, the gradients that are complete without a weight action.
[[nodiscard]] std::vector<Chunk> build_buckets(State&, std::uint32_t stage, const Chunk&);

/// Whether updated parts of weights are gathered at the end of the step.
[[nodiscard]] bool gathers_updated(const State&);
/// Whether parts of gradients are summed once more after the last microbatch.
[[nodiscard]] bool combines(const State&);

}  // namespace orrery::lowering
