#pragma once

#include <cstdint>
#include <string>

#include "core/base/diagnostics.hpp"

namespace orrery {

enum class Norm : std::uint8_t { layer_norm, rms_norm };
enum class Activation : std::uint8_t { gelu, swiglu };
enum class PositionEncoding : std::uint8_t { learned, rotary };

/// What is trained: a decoder of identical layers (GPT-2/3 and LLaMA families).
///
/// Widths are global, before any sharding.  `vocabulary` is the real one; a
/// plan pads it to a multiple of its tensor size.
struct ModelSpec {
  std::string name;
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;  ///< equal to heads without grouped-query attention
  std::uint64_t head_dim = 0;  ///< hidden / heads unless the model says otherwise
  std::uint64_t ffn = 0;       ///< width of the feed-forward layer (of each of gate and up for SwiGLU)
  std::uint64_t vocabulary = 0;
  std::uint64_t max_positions = 0;
  Norm norm = Norm::layer_norm;
  Activation activation = Activation::gelu;
  PositionEncoding positions = PositionEncoding::learned;
  bool bias = true;             ///< biases in linear layers
  bool tied_embeddings = true;  ///< the LM head is the embedding table
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  /// How released checkpoints stretch the rotary angles to longer sequences, one
  /// of rope_scaling_names(); empty: not.  Costs nothing, so predictions hold
  /// with it; kernels here do not have it, so such a model cannot be run.
  std::string rope_scaling;
  std::string source;  ///< where the numbers come from
  Origin origin;
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// Trainable parameters, exact to the unit.  The LM head counts once when tied.
///
///     GPT:    V h + S h + L (12 h^2 + 13 h) + 2 h            (tied, ffn = 4 h)
///     LLaMA:  2 V h + L (2 h a d + 2 h k d + 3 h f + 2 h) + h
///
/// V vocabulary, S positions, h hidden, L layers, a heads, k kv heads,
/// d head size, f ffn.  Source: the published architectures; checked against
/// published counts in tests/unit/core/spec.
[[nodiscard]] std::uint64_t parameter_count(const ModelSpec&);

/// Parameters of one transformer layer.
[[nodiscard]] std::uint64_t layer_parameter_count(const ModelSpec&);

}  // namespace orrery
