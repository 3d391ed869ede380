#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/program/kernel.hpp"
#include "core/spec/adapters.hpp"

// Frozen matrices in few bits. A rank quantizes its own part of a matrix [rows, columns] by itself, so blocks never
// straddle ranks, and the last may be shorter.
//
//   nf4    element i of the part is the i-th of its four-bit codes, two in a byte, the low half first. The 16
//          values of a code stand in exec/kernels/nf4.hpp. A block is 64 elements in a row; its scale is its largest
//          magnitude.
//   int8   code = round(127 x / scale); each column has a scale, its largest magnitude
//   fp8    code = E4M3(x / scale); the scale of the part is its largest magnitude / 448
//
// With double quantization scales s of nf4 are E4M3((s - m) / t): m is their mean, and each 256 of them in a row have
// one t, their largest |s - m| / 448. They are bytes then: the f32 numbers m and all t, and behind them the codes.
// Source: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", arXiv 2305.14314, 2023, section 3.
// bitsandbytes has the same sizes, and for the second codes another table of 256 values; its blocks run along a
// weight's inputs, and these along its outputs.
namespace orrery {

inline constexpr std::uint64_t nf4_block = 64;     ///< elements of a scale
inline constexpr std::uint64_t scale_block = 256;  ///< scales of a scale

/// Elements of the buffers of one matrix.
struct QuantizedSize {
  std::uint64_t codes = 0;   ///< bytes
  std::uint64_t scales = 0;  ///< f32, or bytes with double quantization
};
/// The f32 numbers in front of so many scales that are in 8 bits.
[[nodiscard]] constexpr std::uint64_t scale_numbers(std::uint64_t scales) {
  return 1 + (scales + scale_block - 1) / scale_block;
}

[[nodiscard]] constexpr QuantizedSize quantized_size(BaseWeights base, bool twice, std::uint64_t rows,
                                                     std::uint64_t columns) {
  const std::uint64_t elements = rows * columns;
  switch (base) {
    case BaseWeights::unquantized: return {};
    case BaseWeights::nf4: {
      const std::uint64_t scales = (elements + nf4_block - 1) / nf4_block;
      return {(elements + 1) / 2, twice ? 4 * scale_numbers(scales) + scales : scales};
    }
    case BaseWeights::int8: return {elements, columns};
    case BaseWeights::fp8: return {elements, 1};
  }
  return {};
}
[[nodiscard]] constexpr QuantizedSize quantized_size(const Kernel& k) {
  return quantized_size(static_cast<BaseWeights>(k.site), k.options.scaled, k.rows, k.columns);
}

[[nodiscard]] constexpr DType code_dtype(BaseWeights base) { return base == BaseWeights::fp8 ? DType::f8 : DType::u8; }
[[nodiscard]] constexpr DType scale_dtype(bool twice) { return twice ? DType::u8 : DType::f32; }

}  // namespace orrery
