#include "exec/kernels/device/has_kernel.hpp"

#include <algorithm>

#include "core/program/kernel_table.hpp"
#include "exec/kernels/device/product_types.hpp"

namespace orrery::device {

bool has_kernel(const Kernel& k, std::span<const Operand> operands) {
  if (std::any_of(operands.begin(), operands.end(), [](const Operand& o) { return o.dtype == DType::f8; })) {
    return k.kind == KernelKind::fill || (k.kind == KernelKind::adam_update && k.options.scaled) ||
           k.kind == KernelKind::quantize_weight || k.kind == KernelKind::dequantize_weight;
  }
  return row_of(k.kind).traits.gpu && multiplies_types(k, operands);
}

}  // namespace orrery::device
