#pragma once

#include <bit>
#include <cstdint>

#include "core/base/dtype.hpp"
#include "exec/kernels/device/on_device.hpp"

namespace orrery {

// 16-bit floats are stored as their bits.  Rounding is to nearest, ties to even.

/// bf16 is the upper half of an f32. A quiet NaN stays a NaN.
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;  // adding could carry a NaN over to zero
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

[[nodiscard]] ORRERY_ON_DEVICE inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// f16 has 1 sign, 5 exponent and 10 fraction bits; beyond 65504 + half a unit it is infinity.
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint16_t f16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t x = bits & 0x7fffffffU;
  // For normal numbers, shift the exponent's bias from 127 to 15 and round off 13 fraction bits.
  const std::uint32_t normal = (x + 0xfffU + ((x >> 13) & 1U) - (112U << 23)) >> 13;
  // Below 2^-14 the unit is 2^-24, which is the unit of f32 in [0.5, 1): the addition rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t special = x > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = x < 0x38800000U ? subnormal : normal;                // 2^-14
  return static_cast<std::uint16_t>(sign | (x >= 0x47800000U ? special : finite));  // 65536
}

[[nodiscard]] ORRERY_ON_DEVICE inline float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t x = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  // Exponent and fraction read as f32 are 2^112 too small; the product is exact, for subnormals too.
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) * 0x1.0p112F);
  const std::uint32_t special = x | 0x7f800000U;
  return std::bit_cast<float>(sign | ((bits & 0x7c00U) == 0x7c00U ? special : scaled));
}

/// A float of 8 bits with this many fraction bits, without its sign; `largest` is a value of it. A NaN has all bits
/// set.
template <int fraction, int bias>
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint8_t small_float_of(float value, float largest) {
  constexpr int shift = 23 - fraction;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
  const auto most = std::bit_cast<std::uint32_t>(largest);
  const std::uint32_t x = magnitude < most ? magnitude : most;
  // As in f16_of: below the least normal number f32 has the same unit from 2^(24 - bias - fraction) on.
  constexpr std::uint32_t with_unit = static_cast<std::uint32_t>(127 + 24 - bias - fraction) << 23;
  constexpr std::uint32_t least = static_cast<std::uint32_t>(127 + 1 - bias) << 23;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) + std::bit_cast<float>(with_unit)) - with_unit;
  const std::uint32_t half = (1U << (shift - 1)) - 1U + ((x >> shift) & 1U);
  const std::uint32_t normal = (x + half - (static_cast<std::uint32_t>(127 - bias) << 23)) >> shift;
  return static_cast<std::uint8_t>(sign | (x < least ? subnormal : normal));
}

/// E4M3 has 1 sign, 4 exponent and 3 fraction bits (Micikevicius et al., "FP8 formats for deep learning", 2022); values
/// beyond 448 become 448. It has no infinity; 0x7f is a NaN.
inline constexpr float e4m3_largest = 448.0F;
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint8_t e4m3_of(float value) {
  return small_float_of<3, 7>(value, e4m3_largest);
}
[[nodiscard]] ORRERY_ON_DEVICE inline float from_e4m3(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t magnitude = bits & 0x7fU;
  // Read as f32 they are 2^120 too small, as in from_f16.
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 20) * 0x1.0p120F);
  return std::bit_cast<float>(sign | (magnitude == 0x7fU ? 0x7fc00000U : scaled));
}

/// E5M2, from the same paper, has 1 sign, 5 exponent and 2 fraction bits; values beyond 57344, and infinity, become
/// 57344.
inline constexpr float e5m2_largest = 57344.0F;
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint8_t e5m2_of(float value) {
  return small_float_of<2, 15>(value, e5m2_largest);
}
/// An E5M2 is the upper half of an f16.
[[nodiscard]] ORRERY_ON_DEVICE inline float from_e5m2(std::uint8_t bits) {
  return from_f16(static_cast<std::uint16_t>(bits << 8));
}

/// `out[i] = data[first + i]` for i < count, converted. T is float or double; i32 and u8 read as whole numbers.
template <class T>
void load_elements(DType dtype, const void* data, std::uint64_t first, std::uint64_t count, T* out);

/// `data[first + i] = in[i]`, rounded. f64 goes to 16 bits through f32, as 16-bit weights are rounded copies of f32
/// masters.
template <class T>
void store_elements(DType dtype, void* data, std::uint64_t first, std::uint64_t count, const T* in);

}  // namespace orrery
