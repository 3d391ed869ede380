#include "exec/kernels/device/has_kernel.hpp"

#include <algorithm>

#include "core/program/kernel_table.hpp"
#include "exec/kernels/device/product_types.hpp"
#include "exec/kernels/rotations.hpp"

namespace orrery::device {

bool has_kernel(const Kernel& k, std::span<const Operand> operands) {
  if (std::any_of(operands.begin(), operands.end(), [](const Operand& o) { return o.dtype == DType::f8; })) {
    return k.kind == KernelKind::fill || (k.kind == KernelKind::adam_update && k.options.scaled);
  }
  // Its derivative needs the products again, which the body does not make.
  if (k.kind == KernelKind::attention_unfused_backward && k.softcap > 0.0) return false;
  const bool rope = k.kind == KernelKind::rope_forward || k.kind == KernelKind::rope_backward;
  const bool latent = k.kind == KernelKind::latent_heads_forward || k.kind == KernelKind::latent_heads_backward;
  const std::uint64_t rotating = latent ? k.columns : rope ? rotating_features(k) : 0;
  if (rotating > 2 * most_rotating_pairs) return false;
  return row_of(k.kind).traits.gpu && multiplies_types(k, operands);
}

}  // namespace orrery::device
