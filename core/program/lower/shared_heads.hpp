#pragma once

#include "core/program/lower/attention.hpp"

namespace orrery::lowering {

/// Queries, keys and values where tensor ranks are more than key-value heads. The columns of their product are cut
/// evenly, heads or not, so that every weight is held once. The ranks gather the results, and each takes its queries
/// with the key and value that these share. Backward, the gradients of copies are summed as the parts are scattered.
///
/// Source: NVIDIA/Megatron-LM, megatron/core/transformer/attention.py (pull request 2565): fewer query groups than
/// tensor ranks.
class SharedHeads {
 public:
  [[nodiscard]] static bool needed(const State& s) { return s.shares_kv_heads; }
  explicit SharedHeads(State&);

  /// What the product writes.
  [[nodiscard]] BufferId product() const { return product_; }
  /// Makes this rank's packed heads.
  void forward(BlockBuilder&, BufferId qkv) const;
  /// Goes from their gradient to that of the product's result.
  BufferId backward(BlockBuilder&, BufferId qkv_gradient) const;

 private:
  [[nodiscard]] Kernel kernel(Pass) const;

  const State& s_;
  BufferId product_{}, parts_{}, parts_gradient_{}, product_gradient_{};
};

}  // namespace orrery::lowering
