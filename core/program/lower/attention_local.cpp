#include "core/base/diagnostics.hpp"
#include "core/program/lower/attention.hpp"

namespace orrery::lowering {

HeadShape local_heads(const State& s) { return {s.tokens, s.heads, s.kv_heads}; }

Kernel attention_kernel(const State& s, const HeadShape& shape, KernelKind kind, Pass pass) {
  const std::uint64_t key = key_width(s.model), value = value_width(s.model);
  Kernel k =
      s.kernel(kind, pass, shape.tokens, (shape.heads + std::uint64_t{shape.kv_heads}) * key + shape.kv_heads * value);
  if (value != key) k.value_dim = static_cast<std::uint32_t>(value);
  k.batch = s.sequences;
  k.heads = shape.heads;
  k.kv_heads = shape.kv_heads;
  k.head_dim = static_cast<std::uint32_t>(key);
  k.options.causal = is_causal(s.model);
  return k;
}

Shard qkv_shard(const State& s, Rows rows, const AxisList& heads) {
  const ModelSpec& m = s.model;
  const std::uint64_t group_width = (m.heads / m.kv_heads + 1) * key_width(m) + value_width(m);
  // The cut along kv groups tells kernels which global heads this rank holds.
  return {position_dim(s, rows),
          wide_sequences(s),
          {m.kv_heads, m.kv_heads, heads, false},
          {group_width, group_width, {}, false}};
}

Kernel brought_kernel(const State& s, KernelKind kind, Pass pass) {
  Kernel k = attention_kernel(s, local_heads(s), kind, pass);
  k.options.dropout = s.workload.attention_dropout > 0;
  return k;
}

std::uint64_t pair_width(const State& s) { return s.kv_heads * (key_width(s.model) + value_width(s.model)); }

Shard pair_shard(const State& s, Rows rows) {
  const std::uint64_t pair = key_width(s.model) + value_width(s.model);
  return {position_dim(s, rows),
          wide_sequences(s),
          {s.model.kv_heads, s.model.kv_heads, s.layout.wide_features, false},
          {pair, pair, {}, false}};
}

BufferId layer_buffer(State& s, std::string name, Role role, DType dtype, std::uint64_t count) {
  Buffer b;
  b.name = std::move(name);
  b.role = role;
  b.scope = Scope::layer_microbatch;
  b.dtype = dtype;
  b.count = count;
  return s.declare(std::move(b));
}

namespace {

class Local : public AttentionCore {
 public:
  Local(State& s, const HeadShape& shape) : s_(s), shape_(shape) {
    const auto flat = [&](const char* name, Role role, DType dtype, std::uint64_t count) {
      return layer_buffer(s, name, role, dtype, count);
    };
    if (flash()) {
      lse_ = flat("lse", Role::statistic, s.state, shape.heads * shape.tokens);
      dq_accumulator_ = flat("attention.dq", Role::workspace, s.state, shape.tokens * shape.heads * key_width(s.model));
      return;
    }
    const std::uint64_t scores = shape.heads * shape.tokens * (shape.tokens / s.sequences);
    probabilities_ = flat("probabilities", Role::activation, s.act, scores);
    if (drops()) {
      mask_ = flat("mask", Role::activation, DType::u8, scores);
      dropped_ = flat("dropped", Role::activation, s.act, scores);
    }
    dscores_ = flat("attention.dscores", Role::workspace, s.act, scores);
  }

  void forward(BlockBuilder& b, const AttentionOperands& o) override {
    if (flash()) {
      b.compute(dropped(kernel(KernelKind::attention_flash_forward, Pass::forward)),
                {read(o.qkv), write(o.context), write(lse_)});
      return;
    }
    const Kernel k = dropped(kernel(KernelKind::attention_unfused_forward, Pass::forward));
    if (drops()) {
      b.compute(k, {read(o.qkv), write(o.context), write(probabilities_), write(mask_), write(dropped_)});
    } else {
      b.compute(k, {read(o.qkv), write(o.context), write(probabilities_)});
    }
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    if (flash()) {
      b.compute(dropped(kernel(KernelKind::attention_flash_backward, Pass::input_gradient)),
                {read(o.context_gradient), read(o.qkv), read(o.context), read(lse_), write(o.qkv_gradient),
                 write(dq_accumulator_)});
      return;
    }
    const Kernel k = dropped(kernel(KernelKind::attention_unfused_backward, Pass::input_gradient));
    if (drops()) {
      b.compute(k, {read(o.context_gradient), read(o.qkv), read(probabilities_), read(mask_), read(dropped_),
                    write(o.qkv_gradient), write(dscores_)});
    } else {
      b.compute(k,
                {read(o.context_gradient), read(o.qkv), read(probabilities_), write(o.qkv_gradient), write(dscores_)});
    }
  }

 private:
  [[nodiscard]] bool flash() const { return *s_.plan.attention == AttentionKernel::flash; }
  [[nodiscard]] bool drops() const { return s_.workload.attention_dropout > 0; }
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass) const { return attention_kernel(s_, shape_, kind, pass); }
  [[nodiscard]] Kernel dropped(Kernel k) const {
    if (drops()) {
      k.options.dropout = true;
      k.parameter = s_.workload.attention_dropout;
      k.site = 1;
    }
    return k;
  }

  const State& s_;
  HeadShape shape_;
  BufferId probabilities_{}, mask_{}, dropped_{}, lse_{}, dscores_{}, dq_accumulator_{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_local(State& s, const HeadShape& shape) {
  return std::make_unique<Local>(s, shape);
}

std::unique_ptr<AttentionCore> attention_core(State& s) {
  if (s.context == 1) return attention_local(s, local_heads(s));
  switch (s.plan.context) {
    case ContextAlgorithm::all_gather: return attention_all_gather(s);
    case ContextAlgorithm::ulysses: return attention_ulysses(s);
    case ContextAlgorithm::ring: return attention_ring(s);
    case ContextAlgorithm::ring_self_attention: return attention_ring_scores(s);
  }
  ORRERY_ASSERT(false, s.plan.context);
  return nullptr;
}

}  // namespace orrery::lowering
