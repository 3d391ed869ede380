#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

struct ModelSpec;

/// A matrix of a dense layer that may have an adapter, under the name that LoRA's users know.
enum class AdaptedMatrix : std::uint8_t { q, k, v, o, gate, up, down };
inline constexpr std::size_t adapted_matrix_count = 7;
[[nodiscard]] std::string_view name_of(AdaptedMatrix);
inline constexpr std::array<AdaptedMatrix, adapted_matrix_count> adapted_matrices = {
    AdaptedMatrix::q,    AdaptedMatrix::k,  AdaptedMatrix::v,   AdaptedMatrix::o,
    AdaptedMatrix::gate, AdaptedMatrix::up, AdaptedMatrix::down};

/// Low-rank adapters that are trained in place of the model's weights, which stay as they are.
///
///     y = x W + (alpha / r) (x A) B
///
///     W  frozen weights [in, out]          A  [in, r], starts normal with deviation 1 / sqrt(3 in)
///     r  rank                              B  [r, out], starts at 0
///
/// Source: Hu et al., "LoRA: low-rank adaptation of large language models", ICLR 2022, section 4.1. The deviation is
/// that of PEFT's kaiming_uniform(a = sqrt(5)), whose numbers are uniform. Leaves out: adapters of embedding, head and
/// experts, dropout in front of A, magnitudes (DoRA).
struct Adapters {
  std::uint32_t rank = 16;
  double alpha = 32.0;
  std::uint8_t matrices = all_matrices;  ///< bits by AdaptedMatrix

  static constexpr std::uint8_t all_matrices = (1U << adapted_matrix_count) - 1;
  static constexpr std::uint8_t bit(AdaptedMatrix m) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(m));
  }
  [[nodiscard]] bool has(AdaptedMatrix m) const { return (matrices & bit(m)) != 0; }
  /// What the second factor's result is multiplied by.
  [[nodiscard]] double scale() const { return alpha / rank; }
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
