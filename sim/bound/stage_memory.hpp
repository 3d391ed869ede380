#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/state_costs.hpp"

namespace orrery {

/// What one pipeline stage holds of the model.
struct StageShare {
  PerCase<std::uint32_t> layers{};
  bool first = false;      ///< with the embedding
  bool last = false;       ///< with the head
  bool from_here = false;  ///< the stage before lies on the same rank: no message brings its output
  bool to_here = false;    ///< so does the stage behind
  [[nodiscard]] std::uint32_t count() const { return layers[0] + layers[1] + layers[2] + layers[3]; }
  [[nodiscard]] std::uint32_t dense() const { return layers[0] + layers[1]; }
  /// Cases of its first and its last layer.
  [[nodiscard]] std::size_t lowest() const { return layers[0] > 0 ? 0 : layers[1] > 0 ? 1 : layers[2] > 0 ? 2 : 3; }
  [[nodiscard]] std::size_t highest() const { return layers[3] > 0 ? 3 : layers[2] > 0 ? 2 : layers[1] > 0 ? 1 : 0; }
  friend bool operator==(const StageShare&, const StageShare&) = default;
};

/// What the passes of one microbatch do to a stage's live memory.
struct PassMemory {
  MemoryChange forward, backward;
  MemoryChange weight;  ///< weight gradients, where the schedule splits the backward pass
};
[[nodiscard]] PassMemory pass_memory(const PerCase<const BlockCosts*>&, const StateCosts&, const StageShare&,
                                     const Plan&);

/// Microbatches whose forward pass has run and whose backward pass has not, on
/// each chunk of a pipeline rank (lowest first) right before its first backward
/// pass, which is one of the last chunk.  For one chunk it is the most there
/// ever are, but for zb_h2 and the like, which keep some of them longer.
///
///   gpipe, breadth_first  m of each chunk
///   1f1b, zb_h1           min(m, p - r)
///   eager_1f1b, zb_h2     min(m, 2 (p - 1 - r) + 1)
///   interleaved           the first min(m v, 2 (p - 1 - r) + (v - 1) p + 1) forwards in rounds of p; all where m = p
///   zb_v                  min(m, 2 (p - r) - 1 + r) and min(m, r + 1)
///   chimera, dualpipe     0 and 1
///   others                1 of each chunk
[[nodiscard]] std::vector<std::uint64_t> microbatches_in_flight(const Plan&, std::uint32_t rank,
                                                                std::uint64_t microbatches);
/// What the rank's passes hold at once by that, at least: all chunks before the first backward pass, which is one of
/// the last.
[[nodiscard]] std::uint64_t activation_bytes(const PassMemory* chunks, const std::vector<std::uint64_t>& in_flight);

/// max((n - 1) K + P_f, n K + P_b): K what a forward pass leaves, P the peaks of the passes
[[nodiscard]] std::uint64_t activation_peak(const PassMemory&, std::uint64_t in_flight);

/// Weights, gradients, masters and moments of a stage, without the rank's scalars.
[[nodiscard]] std::uint64_t persistent_bytes(const StateCosts&, const StageShare&);

}  // namespace orrery
