#pragma once

#include "core/program/lower/attention.hpp"
#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// What happens to packed queries, keys and values between their product and the rotation: they are cut to a range
/// (DBRX), and queries and keys are normed (Qwen3, OLMo-2, Llama-4).  The product's result is kept for the backward
/// pass.
///
/// Where all heads of a row are normed together, tensor ranks add up their sums of squares.  Where a head's weights are
/// the same for all heads, their gradients on tensor ranks are parts of a sum (ParameterSegment::summed).
class HeadVectors {
 public:
  /// Whether the model does anything there.
  [[nodiscard]] static bool needed(const ModelSpec&);
  HeadVectors(State&, BufferId qkv, BufferId qkv_gradient);

  /// What the product writes.
  [[nodiscard]] BufferId product(bool normed) const { return clips() || normed ? raw_ : qkv_; }
  /// Goes from the product's result to qkv, or back from the gradient of qkv to that of the product.  `normed`: layers
  /// that do not rotate have no norms without weights (Llama-4).
  void forward(BlockBuilder&, const Module&, bool normed) const;
  BufferId backward(BlockBuilder&, const Module&, bool normed) const;
  /// Whether a layer's queries and keys have norms.
  [[nodiscard]] static bool norms(const ModelSpec&, bool rotates);

 private:
  [[nodiscard]] bool clips() const { return c_.model.qkv_clip > 0.0; }
  [[nodiscard]] bool whole() const { return c_.model.query_key_norm == QueryKeyNorm::whole; }
  [[nodiscard]] bool weighted() const { return c_.model.query_key_norm != QueryKeyNorm::unweighted; }
  [[nodiscard]] bool cut() const { return whole() && c_.tensor > 1; }
  [[nodiscard]] Kernel kernel(KernelKind, Pass) const;
  [[nodiscard]] Kernel clip(KernelKind, Pass) const;
  /// What is normed.
  [[nodiscard]] BufferId input() const { return clips() ? clipped_ : raw_; }

  State& c_;
  BufferId qkv_, qkv_gradient_;
  BufferId raw_{}, clipped_{}, stats_{}, squares_{}, gradient_{}, sums_{};
};

}  // namespace orrery::lowering
