#pragma once

#include <cstdint>

namespace orrery {

// Closed forms of ring self-attention, the sequence parallelism of Li et al.,
// "Sequence Parallelism: Long Sequence Training from System Perspective",
// arXiv 2105.13120: N devices hold s / N positions each and all weights; keys
// and values travel around a ring, the scores of the own queries are kept
// whole.  Beside them the same counts for 1D tensor parallelism over N devices.

/// Shape of one attention and feed-forward layer.
struct AttentionShape {
  std::uint64_t sequences = 1;  ///< b
  std::uint64_t positions = 1;  ///< s
  std::uint64_t hidden = 0;     ///< h
  std::uint64_t heads = 0;      ///< Z; head size A = h / Z
};

/// Elements that one device receives for one layer.
///
///     forward   2 (N - 1) U                  keys and values around the ring
///     backward  2 (N - 1) U + 4 (N - 1) U    both again, and an all-reduce of both gradients
///     U = b s h / N
///
/// Together 8 (N - 1) / N b s h, as much as 1D tensor parallelism.  With a
/// reduce-scatter of the gradients in place of the all-reduce, 6 (N - 1) U.
/// Source: derived from the algorithm of the paper above.  Leaves out the
/// reduction of weight gradients over N.
struct RingVolume {
  double forward = 0.0;
  double backward = 0.0;
  double backward_reduce_scatter = 0.0;  ///< in place of `backward`
};
[[nodiscard]] RingVolume ring_attention_volume(const AttentionShape&, std::uint64_t devices);

/// Elements of one layer on one device: weights four times (gradient and two
/// Adam moments), and the activations that grow with the batch.
struct SequenceMemory {
  double weights = 0.0;
  double activations = 0.0;
  [[nodiscard]] double total() const { return weights + activations; }
};

/// Memory of a layer under ring self-attention.
///
///     MLP        32 h^2 + 5 b s h / N
///     attention  16 A Z h + 4 b s Z A / N + b Z s^2 / N + b s h / N
///
/// Source: derived; agrees with the paper's tables as recalled (unverified:
/// check before quoting), and with Programs but for what these keep too: the
/// input of GELU, 4 b s h / N, and of both norms, 2 b s h / N (a test).  Leaves out dropout masks, copies of the
/// softmax, embedding, logits and mixed precision, as the paper does.
[[nodiscard]] SequenceMemory ring_attention_memory(const AttentionShape&, std::uint64_t devices);

/// The same under 1D tensor parallelism over `devices`.
///
///     MLP        32 h^2 / N + 4 b s h / N + b s h
///     attention  16 A Z h / N + 4 b s Z A / N + b Z s^2 / N + b s h
///
/// Source: as ring_attention_memory.
[[nodiscard]] SequenceMemory tensor_attention_memory(const AttentionShape&, std::uint64_t devices);

}  // namespace orrery
