#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "exec/kernels/device/on_device.hpp"

namespace orrery {

// Moments in codes of a byte. The 256 values that codes stand for, over a block's scale, are those of dynamic tree
// quantization: seven decades from 1 down to 1e-7, the i-th of which (0: the lowest) is cut into n_i equal parts, whose
// middles are the values; and 0 and 1. A first moment has n_i = 2^i and the middles with both signs, a second moment,
// which has no sign, n_i = 2^(i + 1). Sources: Dettmers, "8-bit approximations for parallelism in deep learning", ICLR
// 2016, section 2; Dettmers et al., "8-bit optimizers via block-wise quantization", ICLR 2022, section 2.2; the numbers
// are those of bitsandbytes and torchao.
//
// A code is the place of its value in their order, counted from the place of 0, modulo 256: memory that is all 0 holds
// zeros.

/// The value of a code of a first or a second moment.
[[nodiscard]] ORRERY_ON_DEVICE inline float dynamic_value(std::uint32_t code, bool squares) {
  const bool negative = !squares && code > 128;
  const std::uint32_t from_zero = negative ? 256 - code : code;
  if (from_zero == 0) return 0.0F;
  // With places counted so, the decade of n parts begins at place n.
  const std::uint32_t place = from_zero + (squares ? 1U : 0U), one = squares ? 256 : 128;
  if (place == one) return 1.0F;
  std::uint32_t parts = squares ? 2 : 1, below_one = 1000000;
  while (place >= 2 * parts) {
    parts *= 2;
    below_one /= 10;
  }
  // The middle of part j of n is 1 / 10 + 9 / 10 (2 j + 1) / (2 n). Both whole numbers are exact in f32, so that the
  // quotient is rounded once, and alike on a host and a device.
  const auto middle = static_cast<float>(2 * parts + 18 * (place - parts) + 9);
  const float value = middle / static_cast<float>(20 * parts * below_one);
  return negative ? -value : value;
}

/// The code of the value nearest to x; of two, the one nearer to 0. A NaN has the code of 0.
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint8_t dynamic_code(double x, bool squares) {
  const bool negative = x < 0.0;
  const double size = negative ? -x : x;
  if (!(size > 0.0) || (squares && negative)) return 0;
  std::uint32_t parts = squares ? 2 : 1, below_one = 1000000;
  while (below_one > 1 && size * below_one > 1.0) {
    parts *= 2;
    below_one /= 10;
  }
  // A guess, and then steps to the nearest.
  const double part = (size * below_one - 0.1) / 0.9 * parts;
  const std::uint32_t j = part < 1.0 ? 0 : part < parts - 1 ? static_cast<std::uint32_t>(part) : parts - 1;
  std::uint32_t from_zero = parts + j - (squares ? 1U : 0U);
  const std::uint32_t most = squares ? 255 : negative ? 127 : 128;
  const auto value = [squares](std::uint32_t at) { return static_cast<double>(dynamic_value(at, squares)); };
  while (from_zero < most && size - value(from_zero) > value(from_zero + 1) - size) ++from_zero;
  while (from_zero > 0 && value(from_zero) - size >= size - value(from_zero - 1)) --from_zero;
  return static_cast<std::uint8_t>(negative ? 256 - from_zero : from_zero);
}

/// What a stored number of a moment with scales means, over the scale.
template <class T>
[[nodiscard]] ORRERY_ON_DEVICE T moment_of_stored(DType type, bool squares, T number) {
  return type == DType::u8 ? static_cast<T>(dynamic_value(static_cast<std::uint32_t>(number), squares)) : number;
}
/// The number to be stored, which the type then rounds.
template <class T>
[[nodiscard]] ORRERY_ON_DEVICE T stored_of_moment(DType type, bool squares, T over_scale) {
  return type == DType::u8 ? static_cast<T>(dynamic_code(static_cast<double>(over_scale), squares)) : over_scale;
}

}  // namespace orrery
