#pragma once

#include <map>
#include <memory>
#include <span>

#include "exec/kernels/cuda/cudnn/attention_notes.hpp"
#include "exec/kernels/cuda/cudnn/attention_plan.hpp"
#include "exec/kernels/cuda/cudnn/part_attention.hpp"

namespace orrery::cudnn {

class OwnedHandle;

/// Whether cuDNN may be asked for a kernel of this kind.
[[nodiscard]] constexpr bool is_fused(KernelKind kind) {
  switch (kind) {
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward: return true;
    default: return false;
  }
}

/// Attention by cuDNN on one stream, where cuDNN is there and serves it. Plans are kept by shape. A module that is
/// built without cuDNN's headers has no_attention.cpp in place of fused_attention.cpp.
class FusedAttention {
 public:
  /// `stream` is a cudaStream_t of a device of this compute capability; the notes outlive it.
  FusedAttention(void* stream, int capability, AttentionNotes&);
  ~FusedAttention();
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;

  /// Launches a kernel; false, and nothing is launched, where it is no flash attention and none on brought keys, or our
  /// own kernel is to do it.
  bool run(const Kernel&, std::span<const Operand>, device::AroundLibrary&);

 private:
  bool run_part(const Kernel&, const NamedOperands&, device::AroundLibrary&);
  /// Null where cuDNN has no plan, or there is no memory for its workspace; the notes say why.
  [[nodiscard]] const AttentionPlan* plan(const AttentionShape&, device::AroundLibrary&);

  void* stream_;
  int capability_;
  AttentionNotes& notes_;
  std::unique_ptr<OwnedHandle> handle_;
  std::map<AttentionShape, std::unique_ptr<AttentionPlan>> plans_;
};

}  // namespace orrery::cudnn
