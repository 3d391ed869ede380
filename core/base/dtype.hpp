#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

/// Element types of buffers and of arithmetic.
///
/// With f8 as the type of arithmetic, products take bf16 operands as E4M3, or as E5M2 where they are gradients
/// (Micikevicius et al., "FP8 formats for deep learning", 2022). Buffers of f8 hold E4M3: first moments, with scales
/// beside them (core/program/moment_scales.hpp).
enum class DType : std::uint8_t { f64, f32, bf16, f16, i32, u8, f8 };

/// Bytes of one element.
[[nodiscard]] constexpr std::uint64_t size_of(DType t) {
  switch (t) {
    case DType::f64: return 8;
    case DType::f32: return 4;
    case DType::i32: return 4;
    case DType::bf16: return 2;
    case DType::f16: return 2;
    case DType::u8: return 1;
    case DType::f8: return 1;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::i32: return "i32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::u8: return "u8";
    case DType::f8: return "f8";
  }
  return "";
}

[[nodiscard]] constexpr std::optional<DType> dtype_named(std::string_view name) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::u8, DType::f8}) {
    if (name_of(t) == name) return t;
  }
  return std::nullopt;
}

}  // namespace orrery
