#pragma once

#include <cstdint>

#include "core/base/units.hpp"

namespace orrery {

/// Where a weight gradient goes between the product that makes it and the buffer that sums gradients.
enum class WeightGradients : std::uint8_t {
  in_place,  ///< the product adds to the buffer, as the Program says
  /// The product adds to the buffer, and automatic differentiation gets an empty tensor of the weight's shape and type
  /// in its place. Linear layers share one for each shape, from the first backward pass on; the head makes its own each
  /// time. Megatron-LM's gradient accumulation fusion with Transformer Engine does this.
  placeholders,
  apart,  ///< a tensor in the weights' type, which is then added to the buffer: one product at a time
};

/// What is held for a logit. The Program holds it in fp32 and turns it into its gradient in place.
enum class CrossEntropy : std::uint8_t {
  in_place,  ///< as the Program says
  fused,     ///< in the weights' type, with the gradient in place: Transformer Engine's parallel cross-entropy
  plain,     ///< the product's result in the weights' type, and an fp32 copy, from which the gradient is converted
  /// PyTorch's own cross-entropy, operation by operation. It holds an fp32 copy of the product's result and its
  /// log-softmax, which is kept. In the backward pass come the gradients of both in fp32 beside it, then one in the
  /// weights' type. Over a vocabulary that tensor ranks share, DTensor's loss parallelism applies. In the forward pass
  /// it also holds the shifted logits. In the backward pass, beside what is kept, it holds the targets' part, the
  /// exponentials, their sum and the product, three of them at one time, in fp32.
  eager,
};

/// How weights, gradients and optimizer states are allocated, and what ZeRO-3 holds of them.
enum class StateLayout : std::uint8_t {
  listed,      ///< as the Program says: all before the first step
  contiguous,  ///< Megatron-LM's buffers (ContiguousSetup)
  fsdp,        ///< PyTorch's FSDP2 (FsdpMemory)
};

/// What a training program holds beside the tensors of a Program.
struct FrameworkMemory {
  WeightGradients weight_gradients = WeightGradients::in_place;
  CrossEntropy cross_entropy = CrossEntropy::in_place;
  Bytes workspaces;  ///< bytes for product libraries, from the caching allocator, as long as the process lives
  StateLayout states = StateLayout::listed;
  /// fsdp: results of products that each recomputed layer keeps of a microbatch in spite of recomputation.
  Bytes kept_products = {};
  friend bool operator==(const FrameworkMemory&, const FrameworkMemory&) = default;
};

}  // namespace orrery
