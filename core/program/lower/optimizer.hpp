#pragma once

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Blocks that every stage runs once a step; clear_norm and reduce_norm only
/// where updates take a factor.
struct OptimizerBlocks {
  BlockId clear_norm{}, reduce_norm{}, advance{};
};

/// Global norm over every parameter counted once, clip factor and fp16 loss
/// scale, and the update of each module (State::blocks of norm and update).
[[nodiscard]] OptimizerBlocks build_optimizer(State&);

/// The ranks that hold all parts of a stage's parameters: those of the global norm, without other stages; of one
/// expert's, without other experts.
[[nodiscard]] GroupId tensor_holders(State&, bool one_expert);

/// Sum of the tied table's gradients on the first and the last stage.
[[nodiscard]] BlockId build_tied_reduction(State&, std::uint32_t stage);

}  // namespace orrery::lowering
