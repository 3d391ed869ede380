#pragma once

#include "core/program/lower/block_builder.hpp"
#include "core/program/lower/context.hpp"

namespace orrery::lowering {

/// Blocks that allocate and initialize what persists, and those that clear the
/// gradients at the start of a step.
struct SetupBlocks {
  BlockId embedding{}, layer{}, head{}, scalars{};
  BlockId clear_embedding{}, clear_layer{}, clear_head{};
};
[[nodiscard]] SetupBlocks build_setup(Context&);

/// Counts the valid targets of the step and clears the loss (last stage).
[[nodiscard]] BlockId build_begin(Context&);
/// Mean loss over all replicas (last stage).
[[nodiscard]] BlockId build_mean_loss(Context&);

}  // namespace orrery::lowering
