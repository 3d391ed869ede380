#include "exec/kernels/cuda/cudnn/attention_shape.hpp"

#include "exec/kernels/cpu/heads.hpp"

namespace orrery::cudnn {
namespace {

using N = OperandName;

bool lies_in_chunks(const NamedOperands& o, DType type) {
  for (const N name : {N::qkv, N::context, N::dcontext, N::dqkv}) {
    const Operand* x = o.find(name);
    if (x == nullptr) continue;
    if (x->dtype != type || x->accumulate || reinterpret_cast<std::uintptr_t>(x->data) % 16 != 0) return false;
  }
  const Operand& lse = o[N::lse];
  return lse.dtype == DType::f32 && !lse.accumulate;
}

}  // namespace

AttentionShape attention_shape(const Kernel& k, DType type) {
  const cpu::Heads s(k);
  const auto number = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  AttentionShape shape;
  shape.type = type;
  shape.backward = k.kind == KernelKind::attention_flash_backward;
  shape.causal = k.options.causal;
  shape.all_pairs = number(s.batch * s.kv_heads);
  shape.group = number(s.group);
  shape.length = number(s.length);
  shape.dim = number(s.dim);
  shape.value = number(s.value);
  // A window of the whole sequence is none.
  shape.window = k.window < s.length ? number(k.window) : 0;
  shape.scale = s.scale;
  shape.pairs = shape.all_pairs;
  const std::uint64_t of_pair = score_bytes(shape.group, shape.length);
  while (shape.backward && shape.pairs > 1 &&
         (static_cast<std::uint64_t>(shape.pairs) * of_pair > most_score_bytes || shape.all_pairs % shape.pairs != 0)) {
    --shape.pairs;
  }
  return shape;
}

const char* why_not(const Kernel& k, const NamedOperands& o, int capability) {
  const DType type = o[N::qkv].dtype;
  if (k.compute == DType::f64 || (type != DType::bf16 && type != DType::f16)) return "elements are not bf16 or f16";
  if (k.options.dropout) return "dropout is keyed by element";
  if (k.options.alibi) return "scores fall with distance (ALiBi)";
  if (k.softcap > 0.0) return "scores have a soft cap";
  if (k.options.sinks) return "heads have sinks";
  if (k.options.chunked && k.window > 0) return "sequences are cut into chunks";
  const cpu::Heads s(k);
  if (s.dim % 8 != 0 || s.value % 8 != 0) return "features of a head are no multiple of 8";
  const std::uint64_t most = capability / 10 == 9 ? 256 : 128;
  if (s.dim > most || s.value > most) {
    return most == 256 ? "a head has more than 256 features" : "a head has more than 128 features";
  }
  if (s.length >> 31 != 0) return "a sequence has 2^31 positions or more";
  if (!lies_in_chunks(o, type)) return "operands do not lie in chunks of 16 bytes, or add to what is there";
  if (k.kind == KernelKind::attention_flash_backward &&
      score_bytes(static_cast<std::int64_t>(s.group), static_cast<std::int64_t>(s.length)) > most_score_bytes) {
    return "a deterministic backward pass of cuDNN would need more than 512 MiB";
  }
  return nullptr;
}

}  // namespace orrery::cudnn
