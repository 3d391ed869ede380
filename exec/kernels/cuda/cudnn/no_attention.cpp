#include "exec/kernels/cuda/cudnn/fused_attention.hpp"

namespace orrery::cudnn {

class OwnedHandle {};
struct AttentionPlan::State {};
AttentionPlan::~AttentionPlan() = default;

FusedAttention::FusedAttention(void* stream, int capability, AttentionNotes& notes)
    : stream_(stream), capability_(capability), notes_(notes) {}
FusedAttention::~FusedAttention() = default;

bool FusedAttention::run(const Kernel& k, std::span<const Operand>, device::AroundLibrary&) {
  if (is_fused(k.kind)) notes_.own("this orrery was built without cuDNN");
  return false;
}

}  // namespace orrery::cudnn
