#pragma once

#include "core/program/lower/block_builder.hpp"
#include "core/program/lower/context.hpp"

namespace orrery::lowering {

/// Modules whose gradients travel as one message, in the order in which the
/// last backward pass finishes them: the head, then layers downwards, then the
/// embedding.
struct Bucket {
  bool head = false;
  std::uint32_t layers = 0;     ///< how many
  std::uint32_t low_layer = 0;  ///< lowest of them
  bool embedding = false;
  BlockId reduce{};  ///< set where reductions are needed
  BlockId gather{};  ///< ZeRO-1: all-gather of the updated weights
};

/// Whether gradients need any reduction between ranks of a stage.
[[nodiscard]] bool needs_reduction(const Context&);

/// Cuts the stage's modules into buckets of at least the plan's bucket size
/// (the last may be smaller) and builds their blocks: with sequence
/// parallelism first the sum of replicated parameters' partial gradients over
/// the tensor axis, then all-reduce, or reduce-scatter with ZeRO-1 (Rajbhandari
/// et al., SC '20), over the data axis.
[[nodiscard]] std::vector<Bucket> build_buckets(Context&, std::uint32_t stage);

/// Sum of the tied table's gradients on the first and the last stage.
[[nodiscard]] BlockId build_tied_reduction(Context&, bool first_stage);

/// The part of a segment that this rank updates: all of it, or its share under ZeRO-1.
[[nodiscard]] Operand own_part(const Context&, BufferId buffer, const ParameterSegment&, View::Use,
                               std::int8_t layer_shift = 0);

}  // namespace orrery::lowering
