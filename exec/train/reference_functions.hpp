#pragma once

#include <cstdint>
#include <vector>

#include "core/spec/model_spec.hpp"
#include "exec/train/matrix.hpp"

namespace orrery {

// The functions of the single-device reference model and their derivatives, on
// one sequence: matrices are [position, feature].

/// Names an element of a dropout mask: everything in the random key but the element. rate 0 keeps all.
struct DropoutKey {
  double rate = 0.0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t site = 0;
  std::uint64_t layer = 0;
};
/// 0 for a dropped element, otherwise 1 / (1 - rate).
[[nodiscard]] double dropout_factor(const DropoutKey&, std::uint64_t element);

/// y = (x - mean) / deviation * gamma + beta, per row; rms: y = x / rms * gamma.
/// The epsilon is inside the root.  `beta` is null for rms_norm.
[[nodiscard]] Matrix norm_forward(Norm, double epsilon, const Matrix& x, const Matrix& gamma, const Matrix* beta);
/// Returns dx; adds to dgamma and dbeta.
[[nodiscard]] Matrix norm_backward(Norm, double epsilon, const Matrix& dy, const Matrix& x, const Matrix& gamma,
                                   Matrix& dgamma, Matrix* dbeta);

/// Rotates queries and keys of every head of a layer in place, the first rotary_dim features of each; `direction` -1
/// turns the other way, which is the derivative.
void rotate(const ModelSpec&, std::uint64_t layer, Matrix& qkv, double direction);

/// RMS norms of queries and keys in packed qkv, by ModelSpec::query_key_norm. Weights are null where it has none.
[[nodiscard]] Matrix query_key_norm_forward(const ModelSpec&, const Matrix& qkv, const Matrix* query_gamma,
                                            const Matrix* key_gamma);
/// Returns the gradient of qkv; adds to those of the weights.
[[nodiscard]] Matrix query_key_norm_backward(const ModelSpec&, const Matrix& dy, const Matrix& qkv,
                                             const Matrix* query_gamma, const Matrix* key_gamma, Matrix* dquery_gamma,
                                             Matrix* dkey_gamma);

/// act(pre): [s, ffn] from [s, ffn], or [s, 2 ffn] where gated.
[[nodiscard]] Matrix activation_forward(const ModelSpec&, const Matrix& pre);
[[nodiscard]] Matrix activation_backward(const ModelSpec&, const Matrix& dy, const Matrix& pre);

/// Cross-entropy of a sequence whose raw logits [position, token] the model scales and caps. A negative target counts
/// for nothing. Adds `share` times the sum over positions to `loss`; returns d loss / d raw logits.
[[nodiscard]] Matrix cross_entropy(const ModelSpec&, Matrix raw, const std::vector<std::int32_t>& targets, double share,
                                   double& loss);

/// Packed qkv from three inputs: queries [s, heads (head_dim + rope_dim)], pairs of the keys' other features and values
/// [s, heads (head_dim + value_dim)], and the key features that all heads share [s, rope_dim], rotated.
[[nodiscard]] Matrix latent_heads(const ModelSpec&, const Matrix& queries, const Matrix& pairs, const Matrix& key);
struct LatentHeads {
  Matrix queries, pairs, key;
};
/// Turns dqkv into the gradients of the three.
[[nodiscard]] LatentHeads latent_heads_backward(const ModelSpec&, const Matrix& dqkv);

}  // namespace orrery
