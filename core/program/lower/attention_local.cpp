#include "core/base/diagnostics.hpp"
#include "core/plan/head_shares.hpp"
#include "core/program/lower/attention.hpp"
#include "core/program/lower/tensor.hpp"

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

Kernel sharing_kernel(const State& s, const HeadShape& heads, Pass pass, std::uint64_t parts, std::uint64_t width) {
  const bool forward = pass == Pass::forward;
  Kernel k =
      attention_kernel(s, heads, forward ? KernelKind::share_heads_forward : KernelKind::share_heads_backward, pass);
  k.options.causal = false;
  k.columns = width;
  k.depth = parts;
  return k;
}

Kernel scoring_kernel(const State& s, const HeadShape& shape, const LayerKind& layer, KernelKind kind, Pass pass) {
  const ModelSpec& m = s.model;
  Kernel k = attention_kernel(s, shape, kind, pass);
  // A window of the whole sequence or more hides nothing.
  if (layer.local && m.local->size < s.workload.sequence_length) {
    k.window = m.local->size;
    k.options.chunked = m.local->span == LocalAttention::Span::chunk;
  }
  k.scale = m.attention_scale;
  k.softcap = m.attention_softcap;
  k.options.alibi = m.positions == PositionEncoding::alibi;
  return k;
}

std::vector<Operand> with_sinks(const State& s, const AttentionOperands& o, Kernel& k, std::vector<Operand> operands) {
  k.options.sinks = s.model.sinks;
  if (s.model.sinks) operands.push_back(weight_of(s, s.*o.kind->module, "attention.sinks"));
  return operands;
}

void sinks_backward(const State& s, BlockBuilder& b, const AttentionOperands& o, BufferId lse) {
  if (!s.model.sinks || !s.trains_weights()) return;
  const Module& module = s.*o.kind->module;
  b.compute(attention_kernel(s, local_heads(s), KernelKind::attention_sinks_backward, Pass::weight_gradient),
            {read(o.context_gradient), read(o.context), read(lse), weight_of(s, module, "attention.sinks"),
             gradient_of(s, module, "attention.sinks")});
}

Shard qkv_shard(const State& s, Rows rows, const AxisList& heads) {
  const ModelSpec& m = s.model;
  const std::uint64_t kv_heads = held_kv_heads(m, size(s.plan.mesh, heads));
  const std::uint64_t group_width = (m.heads / kv_heads + 1) * key_width(m) + value_width(m);
  // The cut along kv groups tells kernels which global heads this rank holds.
  return {position_dim(s, rows),
          wide_sequences(s),
          {kv_heads, kv_heads, heads, false},
          {group_width, group_width, {}, false}};
}

Kernel brought_kernel(const State& s, const LayerKind& layer, KernelKind kind, Pass pass) {
  Kernel k = scoring_kernel(s, local_heads(s), layer, kind, pass);
  k.options.dropout = s.workload.attention_dropout > 0;
  return k;
}

std::uint64_t pair_width(const State& s) { return s.kv_heads * (key_width(s.model) + value_width(s.model)); }

Shard pair_shard(const State& s, Rows rows) {
  const std::uint64_t pair = key_width(s.model) + value_width(s.model);
  const std::uint64_t kv_heads = held_kv_heads(s.model, size(s.plan.mesh, s.layout.wide_features));
  return {position_dim(s, rows),
          wide_sequences(s),
          {kv_heads, kv_heads, s.layout.wide_features, false},
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
    if (s.model.sinks) lse_ = flat("lse", Role::statistic, s.state, shape.heads * shape.tokens);
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
      Kernel k = dropped(kernel(o, KernelKind::attention_flash_forward, Pass::forward));
      const auto operands = with_sinks(s_, o, k, {read(o.qkv), write(o.context), write(lse_)});
      b.compute(k, operands);
      return;
    }
    const BlockBuilder::Part part(b, RecomputeModule::core_attn);
    Kernel k = dropped(kernel(o, KernelKind::attention_unfused_forward, Pass::forward));
    std::vector<Operand> operands = {read(o.qkv), write(o.context), write(probabilities_)};
    if (drops()) operands.insert(operands.end(), {write(mask_), write(dropped_)});
    operands = with_sinks(s_, o, k, std::move(operands));
    if (k.options.sinks) operands.push_back(write(lse_));
    b.compute(k, operands);
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    if (flash()) {
      b.compute(dropped(kernel(o, KernelKind::attention_flash_backward, Pass::input_gradient)),
                {read(o.context_gradient), read(o.qkv), read(o.context), read(lse_), write(o.qkv_gradient),
                 write(dq_accumulator_)});
      sinks_backward(s_, b, o, lse_);
      return;
    }
    const Kernel k = dropped(kernel(o, KernelKind::attention_unfused_backward, Pass::input_gradient));
    if (drops()) {
      b.compute(k, {read(o.context_gradient), read(o.qkv), read(probabilities_), read(mask_), read(dropped_),
                    write(o.qkv_gradient), write(dscores_)});
    } else {
      b.compute(k,
                {read(o.context_gradient), read(o.qkv), read(probabilities_), write(o.qkv_gradient), write(dscores_)});
    }
    sinks_backward(s_, b, o, lse_);
  }

 private:
  [[nodiscard]] bool flash() const { return *s_.plan.attention == AttentionKernel::flash; }
  [[nodiscard]] bool drops() const { return s_.workload.attention_dropout > 0; }
  [[nodiscard]] Kernel kernel(const AttentionOperands& o, KernelKind kind, Pass pass) const {
    return scoring_kernel(s_, shape_, *o.kind, kind, pass);
  }
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
