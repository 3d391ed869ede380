#include "exec/kernels/convert.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace orrery {
namespace {

template <class Stored, class T, class Convert>
void load_as(const void* data, std::uint64_t first, std::uint64_t count, T* out, Convert convert) {
  const Stored* in = static_cast<const Stored*>(data) + first;
  for (std::uint64_t i = 0; i < count; ++i) out[i] = static_cast<T>(convert(in[i]));
}

template <class Stored, class T, class Convert>
void store_as(void* data, std::uint64_t first, std::uint64_t count, const T* in, Convert convert) {
  Stored* out = static_cast<Stored*>(data) + first;
  for (std::uint64_t i = 0; i < count; ++i) out[i] = static_cast<Stored>(convert(in[i]));
}

/// Of 128 magnitudes that of 0x7f is a NaN.
constexpr std::uint8_t e4m3_largest = 0x7e;

constexpr auto same = [](auto x) { return x; };

}  // namespace

std::uint8_t e4m3_of(float value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const float x = std::min(std::abs(value), 448.0F);
  // Between 2^e and 2^(e + 1) the unit is 2^(e - 3), below 2^-6 it is 2^-9.
  const int exponent = x < 0x1p-6F ? -6 : std::ilogb(x);
  const float units = std::nearbyint(std::ldexp(x, 3 - exponent));  // at most 16, which carries into the exponent
  const int code = (exponent + 6) * 8 + static_cast<int>(units);
  return static_cast<std::uint8_t>(sign | std::min<int>(code, e4m3_largest));
}

float from_e4m3(std::uint8_t bits) {
  const int magnitude = bits & 0x7f, exponent = magnitude >> 3, fraction = magnitude & 7;
  if (magnitude > e4m3_largest) return std::numeric_limits<float>::quiet_NaN();
  const float x = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -x : x;
}

template <class T>
void load_elements(DType dtype, const void* data, std::uint64_t first, std::uint64_t count, T* out) {
  switch (dtype) {
    case DType::f64: return load_as<double>(data, first, count, out, same);
    case DType::f32: return load_as<float>(data, first, count, out, same);
    case DType::bf16: return load_as<std::uint16_t>(data, first, count, out, from_bf16);
    case DType::f16: return load_as<std::uint16_t>(data, first, count, out, from_f16);
    case DType::i32: return load_as<std::int32_t>(data, first, count, out, same);
    case DType::u8: return load_as<std::uint8_t>(data, first, count, out, same);
    case DType::f8: return load_as<std::uint8_t>(data, first, count, out, from_e4m3);
  }
}

template <class T>
void store_elements(DType dtype, void* data, std::uint64_t first, std::uint64_t count, const T* in) {
  constexpr auto bf16 = [](T x) { return bf16_of(static_cast<float>(x)); };
  constexpr auto f16 = [](T x) { return f16_of(static_cast<float>(x)); };
  constexpr auto e4m3 = [](T x) { return e4m3_of(static_cast<float>(x)); };
  switch (dtype) {
    case DType::f64: return store_as<double>(data, first, count, in, same);
    case DType::f32: return store_as<float>(data, first, count, in, same);
    case DType::bf16: return store_as<std::uint16_t>(data, first, count, in, bf16);
    case DType::f16: return store_as<std::uint16_t>(data, first, count, in, f16);
    case DType::i32: return store_as<std::int32_t>(data, first, count, in, same);
    case DType::u8: return store_as<std::uint8_t>(data, first, count, in, same);
    case DType::f8: return store_as<std::uint8_t>(data, first, count, in, e4m3);
  }
}

template void load_elements<float>(DType, const void*, std::uint64_t, std::uint64_t, float*);
template void load_elements<double>(DType, const void*, std::uint64_t, std::uint64_t, double*);
template void store_elements<float>(DType, void*, std::uint64_t, std::uint64_t, const float*);
template void store_elements<double>(DType, void*, std::uint64_t, std::uint64_t, const double*);

}  // namespace orrery
