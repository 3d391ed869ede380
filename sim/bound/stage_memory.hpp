#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/stage_share.hpp"
#include "sim/bound/state_costs.hpp"

namespace orrery {

/// What the passes of one microbatch do to a stage's live memory.
struct PassMemory {
  MemoryChange forward, backward;
  MemoryChange weight;  ///< weight gradients, where the schedule splits the backward pass
  /// Whole weights that ZeRO-3 keeps from the stage's first forward to its last backward pass, in neither of them.
  std::int64_t kept_weights = 0;
};
[[nodiscard]] PassMemory pass_memory(const PerCase<const BlockCosts*>&, const StateCosts&, const StageShare&,
                                     const Plan&, std::uint64_t microbatches);

/// Microbatches whose forward pass has run and whose backward pass has not, on
/// each chunk of a pipeline rank (lowest first) right before its first backward
/// pass, which is one of the last chunk.  For one chunk it is the most there
/// ever are, but for zb_h2 and the like, which keep some of them longer.
///
///   gpipe, breadth_first  m of each chunk
///   1f1b, zb_h1           min(m, p - r)
///   eager_1f1b, zb_h2     min(m, 2 (p - 1 - r) + 1)
///   interleaved           the first min(m v, 2 (p - 1 - r) + (v - 1) p + 1) forwards in rounds of p
///   zb_v                  min(m, 2 (p - r) - 1 + r) and min(m, r + 1)
///   chimera, dualpipe     0 and 1
///   others                1 of each chunk
[[nodiscard]] std::vector<std::uint64_t> microbatches_in_flight(const Plan&, std::uint32_t rank,
                                                                std::uint64_t microbatches);
/// What the rank's passes hold at once by that, at least: all chunks before the first backward pass, which is one of
/// the last.
[[nodiscard]] std::uint64_t activation_bytes(const PassMemory* chunks, const std::vector<std::uint64_t>& in_flight);

/// max((n - 1) K + P_f, n K + P_b): K what a forward pass leaves, P the peaks of the passes; and weights kept behind
/// the first forward pass
[[nodiscard]] std::uint64_t activation_peak(const PassMemory&, std::uint64_t in_flight);

/// Of a stage's layers, those that so many eighths offload, rounded up.
[[nodiscard]] constexpr std::uint32_t offloaded_layers(std::uint32_t layers, std::uint32_t eighths) {
  return (layers * eighths + 7) / 8;
}

/// Of plans that differ in nothing else, a number below 81 for what their passes copy.
[[nodiscard]] inline std::size_t copied_eighths(const Plan& plan) {
  return *plan.offload_activations * std::size_t{9} + *plan.offload_parameters;
}
/// Whether the head's backward pass ends before anything is copied up for the layers of its stage: where it is cut into
/// buckets whose reductions begin at once (gathers_and_reductions.cpp), and the head is one of them.  With ZeRO 0 and 1
/// that is the last microbatch's pass, which may be the fullest where it is the only one, or the schedule is not plain:
/// there the answer is yes, which needs no more memory.
[[nodiscard]] bool head_before_copies(const StateCosts&, const Plan&, std::uint64_t microbatches);
/// Of plans that differ in nothing else than ZeRO 0 or 1 and overlap, a number below 162: their passes hold as much.
inline constexpr std::size_t copied_kinds = 162;
[[nodiscard]] inline std::size_t copied_kind(const StateCosts& state, const Plan& plan, std::uint64_t microbatches) {
  return copied_eighths(plan) + (head_before_copies(state, plan, microbatches) ? 81 : 0);
}

/// Weights, gradients, masters and moments of a stage on the device, without the rank's scalars.  The plan says what
/// of them lives off it.
[[nodiscard]] std::uint64_t persistent_bytes(const StateCosts&, const StageShare&, const Plan&);

}  // namespace orrery
