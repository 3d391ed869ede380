#include "exec/kernels/cuda/cudnn/fused_attention.hpp"

#include "core/base/diagnostics.hpp"
#include "exec/kernels/cuda/cudnn/library.hpp"

namespace orrery::cudnn {

FusedAttention::FusedAttention(void* stream, int capability, AttentionNotes& notes)
    : stream_(stream), capability_(capability), notes_(notes) {}
FusedAttention::~FusedAttention() = default;

bool FusedAttention::run(const Kernel& k, std::span<const Operand> operands, const Scratch& scratch) {
  using N = OperandName;
  if (k.kind != KernelKind::attention_flash_forward && k.kind != KernelKind::attention_flash_backward) return false;
  const NamedOperands o(k, operands);
  std::string why;
  if (library(why) == nullptr) {
    notes_.own(why);
    return false;
  }
  if (const char* reason = why_not(k, o, capability_)) {
    notes_.own(reason);
    return false;
  }
  const AttentionPlan* const found = plan(attention_shape(k, o[N::qkv].dtype), scratch);
  if (found == nullptr) return false;
  const auto memory = [&](N name) {
    const Operand* x = o.find(name);
    return x != nullptr ? static_cast<std::byte*>(x->data) : nullptr;
  };
  const std::uint64_t bytes = found->workspace_bytes();
  found->run(handle_->get(), {memory(N::qkv), memory(N::context), memory(N::lse), memory(N::dcontext), memory(N::dqkv)},
             bytes > 0 ? scratch(bytes) : nullptr);
  return true;
}

const AttentionPlan* FusedAttention::plan(const AttentionShape& shape, const Scratch& scratch) {
  const auto [at, fresh] = plans_.try_emplace(shape);
  if (!fresh) return at->second.get();
  try {
    if (!handle_) handle_ = std::make_unique<OwnedHandle>(stream_);
    auto made = std::make_unique<AttentionPlan>(shape, PlanTarget{handle_->get(), {}, capability_});
    if (made->workspace_bytes() > 0) static_cast<void>(scratch(made->workspace_bytes()));  // or there is no room
    at->second = std::move(made);
    std::string why;
    notes_.cudnn(library(why)->text);
  } catch (const Error& e) {
    notes_.own(e.what());
  }
  return at->second.get();
}

}  // namespace orrery::cudnn
