#pragma once

#include <span>

#include "exec/kernels/kernel_runner.hpp"

/// Which types of matrices a GPU's library multiplies (cuBLASLt's table of supported types), and which are made so.
namespace orrery::device {

/// Whether the library multiplies such types: both factors have the type `factors`.
[[nodiscard]] constexpr bool multiplies(DType factors, DType result, DType compute) {
  const bool narrow = factors == DType::bf16 || factors == DType::f16;
  if (compute == DType::f64) return factors == DType::f64 && result == DType::f64;
  return (narrow && (result == factors || result == DType::f32)) || (factors == DType::f32 && result == DType::f32);
}

/// Whether one factor is in f32 and the other in 16 bits, as in the backward products of a head, whose logits are in
/// f32. The first is rounded to the second's type on its way (rounded_product.hpp).
[[nodiscard]] constexpr bool rounds_a_factor(DType a, DType b, DType result, DType compute) {
  const DType narrow = a == DType::f32 ? b : a;
  return a != b && (a == DType::f32 || b == DType::f32) && multiplies(narrow, result, compute);
}

/// False for a kernel that makes products of types which the library does not multiply.
[[nodiscard]] bool multiplies_types(const Kernel&, std::span<const Operand>);

}  // namespace orrery::device
