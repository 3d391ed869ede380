#pragma once

#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// The gate of the experts that every token visits: a sigmoid of one product per token scales what they give
/// (Qwen2-MoE).
///
/// A rank makes the product for its own positions, as the router's. What the experts give is a part of a sum over
/// tensor ranks, and so is the gradient of the gate.
class SharedGate {
 public:
  /// `x` is the normed stream.
  SharedGate(State&, BufferId x);
  void logits_forward(BlockBuilder&);
  void forward(BlockBuilder&, BufferId shared);
  [[nodiscard]] BufferId gated() const { return gated_; }
  /// From dy (whole) to the gradient of what the shared experts gave, and to that of the product.
  Operand backward(BlockBuilder&, Operand dy, BufferId shared);
  void weight_gradient(BlockBuilder&);
  /// Adds the product's part to dx after its sum is made.
  void input_gradient(BlockBuilder&, BufferId dx);

 private:
  State& s_;
  BufferId x_;
  BufferId logits_{}, logits_part_{}, gated_{}, shared_gradient_{}, logits_gradient_{}, logits_part_gradient_{};
};

}  // namespace orrery::lowering
