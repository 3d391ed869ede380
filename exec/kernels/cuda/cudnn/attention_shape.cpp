#include "exec/kernels/cuda/cudnn/attention_shape.hpp"

#include "exec/kernels/cpu/heads.hpp"

namespace orrery::cudnn {
namespace {

using N = OperandName;

std::int64_t number(std::uint64_t x) { return static_cast<std::int64_t>(x); }

bool is_backward(KernelKind kind) {
  return kind == KernelKind::attention_flash_backward || kind == KernelKind::attention_part_backward;
}

bool is_chunk(const Operand& x, DType type) {
  return x.dtype == type && !x.accumulate && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

/// cuDNN reads and writes these; results of attention on brought keys may go through memory of ours.
bool lies_in_chunks(const Kernel& k, const NamedOperands& o, DType type) {
  for (const N name : {N::qkv, N::kv, N::dcontext, N::dqkv}) {
    const Operand* x = o.find(name);
    if (x != nullptr && !is_chunk(*x, type)) return false;
  }
  if (k.kind != KernelKind::attention_part_forward && !is_chunk(o[N::context], type)) return false;
  return is_chunk(o[N::lse], DType::f32);
}

AttentionShape shape_of(const Kernel& k, DType type) {
  const cpu::Heads s(k);
  AttentionShape shape;
  shape.type = type;
  shape.backward = is_backward(k.kind);
  shape.all_pairs = number(s.batch * s.kv_heads);
  shape.group = number(s.group);
  shape.dim = number(s.dim);
  shape.value = number(s.value);
  shape.scale = s.scale;
  return shape;
}

void choose_pairs(AttentionShape& s) {
  s.pairs = s.all_pairs;
  const std::uint64_t of_pair = score_bytes(s.group, s.length, s.keys_length);
  while (s.backward && s.pairs > 1 &&
         (static_cast<std::uint64_t>(s.pairs) * of_pair > most_score_bytes || s.all_pairs % s.pairs != 0)) {
    --s.pairs;
  }
}

}  // namespace

AttentionShape attention_shape(const Kernel& k, DType type) {
  AttentionShape shape = shape_of(k, type);
  shape.causal = k.options.causal;
  shape.length = shape.keys_length = number(k.rows / k.batch);
  // A window of the whole sequence is none.
  shape.window = k.window < static_cast<std::uint64_t>(shape.length) ? number(k.window) : 0;
  choose_pairs(shape);
  return shape;
}

AttentionShape attention_shape(const Kernel& k, DType type, const Band& band) {
  AttentionShape shape = shape_of(k, type);
  shape.brought = true;
  shape.causal = band.causal;
  shape.length = band.queries;
  shape.keys_length = band.keys;
  shape.window = band.window;
  choose_pairs(shape);
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
  if (!lies_in_chunks(k, o, type)) return "operands do not lie in chunks of 16 bytes, or add to what is there";
  const Operand* const brought = o.find(N::kv);
  const std::uint64_t keys = brought != nullptr ? k.depth / k.batch : s.length;
  if (is_backward(k.kind) && score_bytes(number(s.group), number(s.length), number(keys)) > most_score_bytes) {
    return "a deterministic backward pass of cuDNN would need more than 512 MiB";
  }
  return nullptr;
}

}  // namespace orrery::cudnn
