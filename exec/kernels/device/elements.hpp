#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "exec/kernels/convert.hpp"
#include "exec/kernels/device/on_device.hpp"
#include "exec/kernels/kernel_runner.hpp"
#include "exec/kernels/named_operands.hpp"

namespace orrery::device {

using N = OperandName;

/// An operand as a kernel body sees it: elements of a type that is known when
/// it runs.  The branch is the same for all threads; what these kernels wait
/// for is memory.
struct Elements {
  void* data = nullptr;
  DType dtype = DType::f32;

  Elements() = default;
  explicit Elements(const Operand& o) : data(o.data), dtype(o.dtype) {}
  ORRERY_ON_DEVICE Elements(void* memory, DType type) : data(memory), dtype(type) {}

  /// As load_elements (exec/kernels/convert.hpp) converts.
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T load(std::uint64_t i) const {
    switch (dtype) {
      case DType::f64: return static_cast<T>(static_cast<const double*>(data)[i]);
      case DType::f32: return static_cast<T>(static_cast<const float*>(data)[i]);
      case DType::bf16: return static_cast<T>(from_bf16(static_cast<const std::uint16_t*>(data)[i]));
      case DType::f16: return static_cast<T>(from_f16(static_cast<const std::uint16_t*>(data)[i]));
      case DType::i32: return static_cast<T>(static_cast<const std::int32_t*>(data)[i]);
      case DType::u8: return static_cast<T>(static_cast<const std::uint8_t*>(data)[i]);
      case DType::f8: return static_cast<T>(from_e4m3(static_cast<const std::uint8_t*>(data)[i]));
    }
    return T{0};
  }
  /// Rounds to nearest, ties to even; f64 goes to 16 bits through f32.
  template <class T>
  ORRERY_ON_DEVICE void store(std::uint64_t i, T value) const {
    switch (dtype) {
      case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(value); return;
      case DType::f32: static_cast<float*>(data)[i] = static_cast<float>(value); return;
      case DType::bf16: static_cast<std::uint16_t*>(data)[i] = bf16_of(static_cast<float>(value)); return;
      case DType::f16: static_cast<std::uint16_t*>(data)[i] = f16_of(static_cast<float>(value)); return;
      case DType::f8: static_cast<std::uint8_t*>(data)[i] = e4m3_of(static_cast<float>(value)); return;
      case DType::i32:
      case DType::u8: return;
    }
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::int32_t whole(std::uint64_t i) const {
    return static_cast<const std::int32_t*>(data)[i];
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(data); }
};

/// Without memory where the kernel has no such operand.
[[nodiscard]] inline Elements elements_if(const NamedOperands& o, OperandName name) {
  const Operand* operand = o.find(name);
  return operand != nullptr ? Elements(*operand) : Elements{};
}

}  // namespace orrery::device
