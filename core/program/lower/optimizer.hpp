#pragma once

#include "core/program/lower/block_builder.hpp"
#include "core/program/lower/context.hpp"

namespace orrery::lowering {

struct OptimizerBlocks {
  BlockId clear_norm{}, norm_embedding{}, norm_layer{}, norm_head{}, reduce_norm{};
  BlockId advance{}, update_embedding{}, update_layer{}, update_head{};
};

/// Global norm over every parameter counted once, clip factor and fp16 loss
/// scale, and the update of each module.
[[nodiscard]] OptimizerBlocks build_optimizer(Context&);

}  // namespace orrery::lowering
