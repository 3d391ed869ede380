#include "core/program/lower/head_vectors.hpp"

namespace orrery::lowering {
namespace {

constexpr const char* query_norm = "attention.query_norm.weight";
constexpr const char* key_norm = "attention.key_norm.weight";

}  // namespace

bool HeadVectors::needed(const ModelSpec& m) { return m.query_key_norm != QueryKeyNorm::none || m.qkv_clip > 0.0; }

bool HeadVectors::norms(const ModelSpec& m, bool rotates) {
  switch (m.query_key_norm) {
    case QueryKeyNorm::none: return false;
    case QueryKeyNorm::head:
    case QueryKeyNorm::whole: return true;
    case QueryKeyNorm::unweighted: return rotates;
  }
  return false;
}

HeadVectors::HeadVectors(State& c, BufferId qkv, BufferId qkv_gradient)
    : c_(c), qkv_(qkv), qkv_gradient_(qkv_gradient) {
  const auto like_qkv = [&](const char* name, Role role) {
    const BufferId id = layer_buffer(c, name, role, c.act, c.tokens * c.qkv_width);
    c.program.buffers[index(id)].shard = c.program[qkv].shard;
    return id;
  };
  raw_ = like_qkv("qkv.raw", Role::activation);
  const bool normed = c.model.query_key_norm != QueryKeyNorm::none;
  clipped_ = clips() && normed ? like_qkv("qkv.clipped", Role::activation) : qkv;
  if (!normed) return;
  stats_ = layer_buffer(c, "qkv.norm.stats", Role::statistic, c.state,
                        c.tokens * (whole() ? 2 : c.heads + std::uint64_t{c.kv_heads}));
  gradient_ = like_qkv("qkv.raw.gradient", Role::workspace);
  if (!cut()) return;
  squares_ = layer_buffer(c, "qkv.norm.squares", Role::workspace, c.state, 2 * c.tokens);
  sums_ = layer_buffer(c, "qkv.norm.gradient.sums", Role::workspace, c.state, 2 * c.tokens);
}

Kernel HeadVectors::kernel(KernelKind kind, Pass pass) const {
  Kernel k = attention_kernel(c_, local_heads(c_), kind, pass);
  k.options.causal = false;
  k.options.unweighted = !weighted();
  k.options.cut = cut();
  k.depth = whole() ? c_.model.heads * c_.model.head_dim : c_.model.head_dim;
  if (kind == KernelKind::query_key_norm_forward) k.parameter = c_.model.norm_epsilon;
  return k;
}

Kernel HeadVectors::clip(KernelKind kind, Pass pass) const {
  Kernel k = c_.kernel(kind, pass, c_.tokens, c_.qkv_width);
  k.parameter = c_.model.qkv_clip;
  return k;
}

void HeadVectors::forward(BlockBuilder& b, const Module& of, bool normed) const {
  if (clips()) {
    b.compute(clip(KernelKind::clip_forward, Pass::forward), {read(raw_), write(normed ? clipped_ : qkv_)});
  }
  if (!normed) return;
  OperandArray operands{read(input())};
  if (weighted()) operands.add({weight_of(c_, of, query_norm), weight_of(c_, of, key_norm)});
  if (cut()) {
    b.compute(kernel(KernelKind::query_key_squares, Pass::forward), {read(input()), write(squares_)});
    b.seam(Collective::Kind::all_reduce, {update(squares_)});
    operands.add(read(squares_));
  }
  operands.add({write(qkv_), write(stats_)});
  b.compute(kernel(KernelKind::query_key_norm_forward, Pass::forward), operands);
}

BufferId HeadVectors::backward(BlockBuilder& b, const Module& of, bool normed) const {
  BufferId d = qkv_gradient_;
  if (normed) {
    const BufferId x = input();
    OperandArray operands{read(d), read(x)};
    if (weighted()) operands.add({weight_of(c_, of, query_norm), weight_of(c_, of, key_norm)});
    operands.add(read(stats_));
    if (cut()) {
      OperandArray sum = operands;
      sum.add(write(sums_));
      b.compute(kernel(KernelKind::query_key_gradient_sums, Pass::input_gradient), sum);
      b.seam(Collective::Kind::all_reduce, {update(sums_)});
      operands.add(read(sums_));
    }
    operands.add(write(gradient_));
    const auto weight_gradient = [&] {
      if (!weighted() || !c_.trains_weights()) return;
      b.compute(kernel(KernelKind::query_key_norm_backward_weight, Pass::weight_gradient),
                {read(d), read(x), read(stats_), gradient_of(c_, of, query_norm), gradient_of(c_, of, key_norm)});
    };
    // A gradient in the memory of the weight comes after the last op that reads the weight.
    const bool shared =
        weighted() && c_.trains_weights() && c_.program[gradient_of(c_, of, query_norm).buffer].reuses.has_value();
    if (!shared) weight_gradient();
    b.compute(kernel(KernelKind::query_key_norm_backward_input, Pass::input_gradient), operands);
    if (shared) weight_gradient();
    d = gradient_;
  }
  if (clips()) b.compute(clip(KernelKind::clip_backward, Pass::input_gradient), {read(raw_), update(d)});
  return d;
}

}  // namespace orrery::lowering
