#include "exec/kernels/cuda/cudnn/fused_attention.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/cpu/brought_keys.hpp"
#include "exec/kernels/cuda/cudnn/library.hpp"

namespace orrery::cudnn {

FusedAttention::FusedAttention(void* stream, int capability, AttentionNotes& notes)
    : stream_(stream), capability_(capability), notes_(notes) {}
FusedAttention::~FusedAttention() = default;

bool FusedAttention::run(const Kernel& k, std::span<const Operand> operands, device::AroundLibrary& around) {
  using N = OperandName;
  if (!is_fused(k.kind)) return false;
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
  if (o.find(N::kv) != nullptr) return run_part(k, o, around);
  const AttentionPlan* const found = plan(attention_shape(k, o[N::qkv].dtype), around);
  if (found == nullptr) return false;
  const auto memory = [&](N name) {
    const Operand* x = o.find(name);
    return x != nullptr ? static_cast<std::byte*>(x->data) : nullptr;
  };
  const std::uint64_t bytes = found->workspace_bytes();
  found->run(handle_->get(),
             {memory(N::qkv), memory(N::qkv), memory(N::context), memory(N::lse), memory(N::dcontext), memory(N::dqkv),
              memory(N::dqkv)},
             bytes > 0 ? around.scratch(bytes) : nullptr);
  return true;
}

bool FusedAttention::run_part(const Kernel& k, const NamedOperands& o, device::AroundLibrary& around) {
  using N = OperandName;
  std::optional<AttentionBands> bands = attention_bands(k, o[N::qkv].place, cpu::brought_from(k, o[N::kv].place));
  if (!bands) {
    notes_.own("a window ends within keys that were brought");
    return false;
  }
  const PartAttention part(k, o, std::move(*bands));
  std::uint64_t workspace = 0;
  for (const Band& b : part.bands().bands) {
    const AttentionPlan* const found = plan(part.shape(b), around);
    if (found == nullptr) return false;
    workspace = std::max(workspace, found->workspace_bytes());
  }
  std::byte* memory = nullptr;
  try {
    memory = static_cast<std::byte*>(around.scratch(part.memory_bytes() + workspace));
  } catch (const Error& e) {
    notes_.own(e.what());
    return false;
  }
  const Attend attend = [&](const AttentionShape& shape, const AttentionOperands& operands) {
    plans_.at(shape)->run(handle_->get(), operands, memory + part.memory_bytes());
  };
  part.run(attend, around, memory);
  return true;
}

const AttentionPlan* FusedAttention::plan(const AttentionShape& shape, device::AroundLibrary& around) {
  const auto [at, fresh] = plans_.try_emplace(shape);
  if (!fresh) return at->second.get();
  try {
    if (!handle_) handle_ = std::make_unique<OwnedHandle>(stream_);
    auto made = std::make_unique<AttentionPlan>(shape, PlanTarget{handle_->get(), {}, capability_});
    if (made->workspace_bytes() > 0) static_cast<void>(around.scratch(made->workspace_bytes()));  // or there is no room
    at->second = std::move(made);
    std::string why;
    notes_.cudnn(library(why)->text);
  } catch (const Error& e) {
    notes_.own(e.what());
  }
  return at->second.get();
}

}  // namespace orrery::cudnn
