#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>

#include "exec/kernels/cuda/cudnn/attention_notes.hpp"
#include "exec/kernels/cuda/cudnn/attention_plan.hpp"

namespace orrery::cudnn {

class OwnedHandle;

/// Attention by cuDNN on one stream, where cuDNN is there and serves it. Plans are kept by shape. A module that is
/// built without cuDNN's headers has no_attention.cpp in place of fused_attention.cpp.
class FusedAttention {
 public:
  /// `stream` is a cudaStream_t of a device of this compute capability; the notes outlive it.
  FusedAttention(void* stream, int capability, AttentionNotes&);
  ~FusedAttention();
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;

  /// Memory for one kernel's own use. Throws Error where there is none; as much as was had once is there again.
  using Scratch = std::function<void*(std::uint64_t bytes)>;
  /// Launches a kernel; false, and nothing is launched, where it is no flash attention or our own kernel is to do it.
  bool run(const Kernel&, std::span<const Operand>, const Scratch&);

 private:
  /// Null where cuDNN has no plan, or there is no memory for its workspace; the notes say why.
  [[nodiscard]] const AttentionPlan* plan(const AttentionShape&, const Scratch&);

  void* stream_;
  int capability_;
  AttentionNotes& notes_;
  std::unique_ptr<OwnedHandle> handle_;
  std::map<AttentionShape, std::unique_ptr<AttentionPlan>> plans_;
};

}  // namespace orrery::cudnn
