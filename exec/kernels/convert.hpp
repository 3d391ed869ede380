#pragma once

#include <bit>
#include <cstdint>

#include "core/base/dtype.hpp"
#include "exec/kernels/device/on_device.hpp"

namespace orrery {

// 16-bit floats are stored as their bits.  Rounding is to nearest, ties to even.

/// bf16: the upper half of an f32.  A quiet NaN stays a NaN.
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;  // adding could carry a NaN over to zero
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

[[nodiscard]] ORRERY_ON_DEVICE inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// f16: 1 sign, 5 exponent, 10 fraction bits; beyond 65504 + half a unit: infinity.
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint16_t f16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t x = bits & 0x7fffffffU;
  // Normal: shift the exponent's bias from 127 to 15 and round off 13 fraction bits.
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
  // Exponent and fraction read as f32 are 2^112 too small; the product is exact, subnormals included.
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) * 0x1.0p112F);
  const std::uint32_t special = x | 0x7f800000U;
  return std::bit_cast<float>(sign | ((bits & 0x7c00U) == 0x7c00U ? special : scaled));
}

/// E4M3: 1 sign, 4 exponent, 3 fraction bits (Micikevicius et al., "FP8 formats
/// for deep learning", 2022); beyond 448: 448.  No infinity; 0x7f is a NaN.
[[nodiscard]] std::uint8_t e4m3_of(float value);
[[nodiscard]] float from_e4m3(std::uint8_t bits);

/// `out[i] = data[first + i]` for i < count, converted.  T is float or double;
/// i32 and u8 read as whole numbers.
template <class T>
void load_elements(DType dtype, const void* data, std::uint64_t first, std::uint64_t count, T* out);

/// `data[first + i] = in[i]`, rounded.  f64 goes to 16 bits by way of f32, as
/// 16-bit weights are rounded copies of f32 masters.
template <class T>
void store_elements(DType dtype, void* data, std::uint64_t first, std::uint64_t count, const T* in);

}  // namespace orrery
