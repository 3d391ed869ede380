#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct ModelSpec;

/// A matrix of a dense layer that may have an adapter, under the name that LoRA's users know.
enum class AdaptedMatrix : std::uint8_t { q, k, v, o, gate, up, down };
inline constexpr std::size_t adapted_matrix_count = 7;
[[nodiscard]] std::string_view name_of(AdaptedMatrix);
inline constexpr std::array<AdaptedMatrix, adapted_matrix_count> adapted_matrices = {
    AdaptedMatrix::q,    AdaptedMatrix::k,  AdaptedMatrix::v,   AdaptedMatrix::o,
    AdaptedMatrix::gate, AdaptedMatrix::up, AdaptedMatrix::down};

/// In what the frozen matrices of layers are kept, beside which adapters are trained. All but the first are brought
/// back to the weights' type before each product. Embedding, norms, biases and the head stay as they are, as
/// bitsandbytes leaves them.
///   unquantized   the weights' type
///   nf4    4 bits and an f32 scale for each 64 neighbours (Dettmers et al., "QLoRA", arXiv 2305.14314, 2023)
///   int8   8 bits and an f32 scale for each output (Dettmers et al., "LLM.int8()", arXiv 2208.07339, 2022)
///   fp8    E4M3 and an f32 scale for a matrix (Micikevicius et al., arXiv 2209.05433, 2022)
enum class BaseWeights : std::uint8_t { unquantized, nf4, int8, fp8 };
[[nodiscard]] std::string_view name_of(BaseWeights);
[[nodiscard]] const std::vector<std::string_view>& base_weights_names();

/// Low-rank adapters that are trained in place of the model's weights, which stay as they are.
///
///     y = x W + s (x A) B            s = alpha / r, or with rank_stabilized alpha / sqrt(r)
///
///     W  frozen weights [in, out]          A  [in, r], starts normal with deviation 1 / sqrt(3 in)
///     r  rank                              B  [r, out], starts at 0
///
/// Source: Hu et al., "LoRA: low-rank adaptation of large language models", ICLR 2022, section 4.1. The deviation is
/// that of PEFT's kaiming_uniform(a = sqrt(5)), whose numbers are uniform. The scale by the root: Kalajdzievski, "A
/// rank stabilization scaling factor for fine-tuning with LoRA", arXiv 2312.03732, 2023. Leaves out: adapters of
/// embedding, head and experts, dropout in front of A, magnitudes (DoRA).
struct Adapters {
  std::uint32_t rank = 16;
  double alpha = 32.0;
  std::uint8_t matrices = all_matrices;  ///< bits by AdaptedMatrix
  bool rank_stabilized = false;
  BaseWeights base = BaseWeights::unquantized;
  bool double_quantization = false;  ///< nf4: the scales are in 8 bits too

  static constexpr std::uint8_t all_matrices = (1U << adapted_matrix_count) - 1;
  static constexpr std::uint8_t bit(AdaptedMatrix m) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(m));
  }
  [[nodiscard]] bool has(AdaptedMatrix m) const { return (matrices & bit(m)) != 0; }
  /// What the second factor's result is multiplied by.
  [[nodiscard]] double scale() const;
  friend bool operator==(const Adapters&, const Adapters&) = default;
};

inline constexpr std::uint32_t max_adapter_rank = 65'536;

/// The model's matrices among `matrices`: a feed-forward part that is not gated has no gate.
[[nodiscard]] std::uint8_t matrices_of(const ModelSpec&, const Adapters&);
/// Inputs and outputs of a matrix.
struct MatrixSize {
  std::uint64_t in = 0, out = 0;
};
[[nodiscard]] MatrixSize size_of(const ModelSpec&, AdaptedMatrix);

/// Parameters that are trained: the sum over the layers' adapted matrices of r (in + out).
[[nodiscard]] std::uint64_t adapter_parameter_count(const ModelSpec&, const Adapters&);

/// "all", or the names with commas between: "q, v".
[[nodiscard]] std::string matrices_text(const Adapters&);

}  // namespace orrery
