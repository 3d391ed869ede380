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

/// The ranks that hold all parts of a stage's parameters: those of the global norm, without other stages; of one
/// expert's, without other experts.
[[nodiscard]] GroupId tensor_holders(State&, bool one_expert);

/// A buffer of sums that an update makes, f64, in the memory where it works.
[[nodiscard]] BufferId update_workspace(State&, const std::string& name, Scope, std::uint64_t count, Tier);
/// A part of such a buffer, and the ranks over which it is summed.
struct SumOverRanks {
  GroupId group;
  Operand part;
};
/// A message for each, in their order; from host memory they come up for that and go back.
void sum_over_ranks(State&, BlockBuilder&, const std::vector<SumOverRanks>&);

/// Sum of the tied table's gradients on the first and the last stage.
[[nodiscard]] BlockId build_tied_reduction(State&, std::uint32_t stage);

}  // namespace orrery::lowering
