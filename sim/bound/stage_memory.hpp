#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/state_costs.hpp"

namespace orrery {

/// What one pipeline stage holds of the model.
struct StageShare {
  std::uint32_t layers = 0;
  bool first = false;  ///< with the embedding
  bool last = false;   ///< with the head
};

/// What the passes of one microbatch do to a stage's live memory, in bytes.
struct PassMemory {
  std::uint64_t kept = 0;           ///< by a forward pass until its backward pass
  std::uint64_t forward_peak = 0;   ///< inside a forward pass, from its start
  std::uint64_t backward_peak = 0;  ///< inside a backward pass, from its start
};
[[nodiscard]] PassMemory pass_memory(const BlockCosts&, const StageShare&);

/// Microbatches whose forward pass has run and whose backward pass has not, at
/// most: min(m, p - stage) in 1F1B, m in GPipe.
[[nodiscard]] std::uint64_t microbatches_in_flight(ScheduleName, std::uint32_t stage, std::uint32_t stages,
                                                   std::uint64_t microbatches);

/// max((n - 1) kept + forward_peak, n kept + backward_peak)
[[nodiscard]] std::uint64_t activation_peak(const PassMemory&, std::uint64_t in_flight);

/// Weights, gradients, masters, moments and scalars of a stage.
[[nodiscard]] std::uint64_t persistent_bytes(const StateCosts&, const StageShare&);

}  // namespace orrery
