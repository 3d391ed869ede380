#pragma once

#include <string>
#include <vector>

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

/// The ranks that hold all parts of a stage's parameters: the ranks of the global norm within one stage; for one
/// expert's parameters, without other experts.
[[nodiscard]] GroupId tensor_holders(State&, bool one_expert);

/// A buffer of f64 sums that an update makes, in the memory where the update works.
[[nodiscard]] BufferId update_workspace(State&, const std::string& name, Scope, std::uint64_t count, Tier);
/// A part of such a buffer, and the ranks over which it is summed.
struct SumOverRanks {
  GroupId group;
  Operand part;
};
/// One message for each, in their order; sums in host memory come up for it and go back.
void sum_over_ranks(State&, BlockBuilder&, const std::vector<SumOverRanks>&);

/// Sum of the tied table's gradients on the first and the last stage.
[[nodiscard]] BlockId build_tied_reduction(State&, std::uint32_t stage);

}  // namespace orrery::lowering
