#pragma once

#include <cstdint>
#include <vector>

/// What layers of a transformer are made of. docs/model-file.md names a published model for each choice.
namespace orrery {

enum class Norm : std::uint8_t { layer_norm, rms_norm };

/// swiglu and geglu multiply a gate's silu, or gelu, with a second product; the others have one product. quick_gelu is
/// x sigmoid(1.702 x) (CLIP).
enum class Activation : std::uint8_t { gelu, swiglu, geglu, relu, squared_relu, quick_gelu };
[[nodiscard]] constexpr bool is_gated(Activation a) { return a == Activation::swiglu || a == Activation::geglu; }

/// How a model knows the order of positions.
///   learned   a vector for each position, added to the embedding
///   rotary    queries and keys rotate by their position (Su et al., 2021)
///   alibi     scores fall with the distance of query and key (Press et al., 2022)
///   none      only the causal mask tells
enum class PositionEncoding : std::uint8_t { learned, rotary, alibi, none };

/// Which linear layers have biases.
struct Biases {
  bool qkv = false;   ///< products of queries, keys and values
  bool out = false;   ///< attention's last product
  bool ffn = false;   ///< products of dense feed-forward layers
  bool head = false;  ///< the LM head
  /// All linear layers of the transformer, but not the head.
  [[nodiscard]] static constexpr Biases of_layers(bool on) { return {on, on, on, false}; }
  [[nodiscard]] constexpr bool in_layers() const { return qkv || out || ffn; }
  friend bool operator==(const Biases&, const Biases&) = default;
};

/// Where the norms of a branch f stand: x + f(n(x)); x + n(f(x)) (OLMo-2); x + n(f(n(x))) (Gemma-2).
enum class BranchNorms : std::uint8_t { before, after, both };

/// Whether attention and the feed-forward layer stand side by side: x + attention(n(x)) + ffn(n(x)), with one norm
/// (GPT-J) or one norm for each of the two (GPT-NeoX).
enum class ParallelBranches : std::uint8_t { none, one_norm, two_norms };

/// Norms of queries and keys, before they rotate: over the features of each head, with weights that all heads share
/// (Qwen3); or over the features of all heads together (OLMo-2); or over each head's without weights (Llama-4).
enum class QueryKeyNorm : std::uint8_t { none, head, whole, unweighted };

/// A choice of layers: one in every so many, beginning with the last of the first `every` (0: none), and others by
/// number.
struct LayerPattern {
  std::uint64_t every = 0;
  std::vector<std::uint32_t> layers;  ///< further ones, ascending, from 0
  [[nodiscard]] bool has(std::uint64_t layer) const;
  [[nodiscard]] bool empty() const { return every == 0 && layers.empty(); }
  /// The shortest pattern with these layers.
  [[nodiscard]] static LayerPattern of(const std::vector<bool>& chosen);
  friend bool operator==(const LayerPattern&, const LayerPattern&) = default;
};

/// Layers whose queries see near keys alone. A query at i sees a key at j <= i where
///   window   i - size < j (Beltagy et al., "Longformer", 2020)
///   chunk    j / size == i / size, rounded down (Llama-4)
struct LocalAttention {
  enum class Span : std::uint8_t { window, chunk };
  Span span = Span::window;
  std::uint64_t size = 0;   ///< positions
  LayerPattern global;      ///< layers that see all keys
  double rope_theta = 0.0;  ///< base of the rotary angles in local layers; 0: the model's, with its scaling
  friend bool operator==(const LocalAttention&, const LocalAttention&) = default;
};

}  // namespace orrery
