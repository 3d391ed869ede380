#pragma once

#include <cstdint>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/device/elements.hpp"

namespace orrery::device {

/// Whether kernels on tensor cores serve this attention: elements of 16 bits that lie in chunks of 16 bytes.
[[nodiscard]] inline bool fits_tensor_cores(const Kernel& k, const NamedOperands& o) {
  const cpu::Heads s(k);
  const DType type = o[N::qkv].dtype;
  if (k.compute == DType::f64 || (type != DType::bf16 && type != DType::f16)) return false;
  if (s.dim % 8 != 0 || s.value % 8 != 0 || s.dim > 128 || s.value > 128 || s.length >> 31 != 0) return false;
  for (const OperandName name : {N::qkv, N::context, N::dcontext, N::dqkv}) {
    const Operand* x = o.find(name);
    if (x == nullptr) continue;
    if (x->dtype != type || x->accumulate || reinterpret_cast<std::uintptr_t>(x->data) % 16 != 0) return false;
  }
  for (const OperandName name : {N::lse, N::dq_accumulator}) {
    const Operand* x = o.find(name);
    if (x != nullptr && (x->dtype != DType::f32 || x->accumulate)) return false;
  }
  return true;
}

/// Runs flash attention of elements of one type, which fits_tensor_cores, on tensor cores; false where a block's shared
/// memory is too small. Bodies take long to compile: a source of its own includes tensor_flash.hpp for each Launcher
/// and type.
template <DType type, class Launcher>
bool run_tensor_flash_of(Launcher&, const Kernel&, const NamedOperands&, const KernelContext&);

/// Runs flash attention on tensor cores; false where they do not serve it.
template <class Launcher>
bool run_tensor_flash(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  if (!fits_tensor_cores(k, o)) return false;
  if (o[N::qkv].dtype == DType::bf16) return run_tensor_flash_of<DType::bf16>(l, k, o, c);
  return run_tensor_flash_of<DType::f16>(l, k, o, c);
}

}  // namespace orrery::device
