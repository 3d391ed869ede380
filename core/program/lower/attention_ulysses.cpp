#include <algorithm>

#include "core/program/lower/attention.hpp"

namespace orrery::lowering {
namespace {

/// Each rank gives away its positions and gets a part of the heads for the whole sequence. Rows [tokens][c][width / c]
/// become parts [c][tokens][width / c], one per peer. Part i arrives from the rank with the i-th positions, so the
/// parts stand in the order of positions. Where a rank has fewer key-value heads than there are parts, heads of several
/// parts take copies of one.
class Ulysses : public AttentionCore {
 public:
  explicit Ulysses(State& s)
      : s_(s),
        given_{s.tokens, s.heads, std::max(s.kv_heads, s.context)},
        shape_{s.tokens * s.context, given_.heads / s.context, given_.kv_heads / s.context},
        qkv_width_(shape_.heads * key_width(s.model) + shape_.kv_heads * (key_width(s.model) + value_width(s.model))),
        context_width_(s.context_width / s.context) {
    const bool flash = *s.plan.attention == AttentionKernel::flash;
    const std::uint64_t query = s.model.heads * value_width(s.model);
    AxisList heads = s.layout.wide_features;
    heads.axis[heads.count++] = Axis::context;
    const auto placed = [&](const char* name, Role role, const Shard& shard, std::uint64_t width) {
      const BufferId id = layer_buffer(s, name, role, s.act, shape_.tokens * width);
      s.program.buffers[index(id)].shard = shard;
      return id;
    };
    const Shard qkv = qkv_shard(s, Rows::whole, heads);
    const Shard context = {position_dim(s, Rows::whole), wide_sequences(s), {query, query, heads, false}};
    if (copies()) qkv_copies_ = layer_buffer(s, "qkv.copies", Role::workspace, s.act, given_width());
    qkv_parts_ = layer_buffer(s, "qkv.parts", Role::workspace, s.act, given_width());
    qkv_heads_ = placed("qkv.heads", Role::activation, qkv, qkv_width_);
    core_ = attention_local(s, shape_);
    // The flash kernel's backward takes its result again.
    context_heads_ = placed("context.heads", flash ? Role::activation : Role::workspace, context, context_width_);
    context_parts_ = layer_buffer(s, "context.parts", Role::workspace, s.act, s.tokens * s.context_width);
    context_gradient_parts_ =
        layer_buffer(s, "context.gradient.parts", Role::workspace, s.act, s.tokens * s.context_width);
    context_heads_gradient_ = placed("context.heads.gradient", Role::workspace, context, context_width_);
    qkv_heads_gradient_ = placed("qkv.heads.gradient", Role::workspace, qkv, qkv_width_);
    qkv_gradient_parts_ = layer_buffer(s, "qkv.gradient.parts", Role::workspace, s.act, given_width());
    if (copies()) copies_gradient_ = layer_buffer(s, "qkv.copies.gradient", Role::workspace, s.act, given_width());
  }

  void forward(BlockBuilder& b, const AttentionOperands& o) override {
    if (copies())
      b.compute(sharing_kernel(s_, given_, Pass::forward, 1, s_.qkv_width), {read(o.qkv), write(qkv_copies_)});
    to_parts(b, Pass::forward, copies() ? qkv_copies_ : o.qkv, qkv_parts_, qkv_width_);
    b.seam(Collective::Kind::all_to_all, s_.context_group, {read(qkv_parts_), write(qkv_heads_)});
    core_->forward(b, inner(o));
    b.seam(Collective::Kind::all_to_all, s_.context_group, {read(context_heads_), write(context_parts_)});
    from_parts(b, Pass::forward, context_parts_, o.context, context_width_);
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    to_parts(b, Pass::input_gradient, o.context_gradient, context_gradient_parts_, context_width_);
    b.seam(Collective::Kind::all_to_all, s_.context_group,
           {read(context_gradient_parts_), write(context_heads_gradient_)});
    core_->backward(b, inner(o));
    b.seam(Collective::Kind::all_to_all, s_.context_group, {read(qkv_heads_gradient_), write(qkv_gradient_parts_)});
    from_parts(b, Pass::input_gradient, qkv_gradient_parts_, copies() ? copies_gradient_ : o.qkv_gradient, qkv_width_);
    if (!copies()) return;
    b.compute(sharing_kernel(s_, given_, Pass::input_gradient, 1, s_.qkv_width),
              {read(copies_gradient_), write(o.qkv_gradient)});
  }

 private:
  [[nodiscard]] bool copies() const { return given_.kv_heads > s_.kv_heads; }
  /// Elements of what this rank gives to all, copies among them.
  [[nodiscard]] std::uint64_t given_width() const { return s_.tokens * qkv_width_ * s_.context; }
  [[nodiscard]] AttentionOperands inner(const AttentionOperands& o) const {
    return {qkv_heads_, context_heads_, context_heads_gradient_, qkv_heads_gradient_, o.kind};
  }
  void to_parts(BlockBuilder& b, Pass pass, BufferId rows, BufferId parts, std::uint64_t width) {
    b.compute(s_.kernel(KernelKind::swap_blocks, pass, s_.tokens, width, s_.context), {read(rows), write(parts)});
  }
  void from_parts(BlockBuilder& b, Pass pass, BufferId parts, BufferId rows, std::uint64_t width) {
    b.compute(s_.kernel(KernelKind::swap_blocks, pass, s_.context, width, s_.tokens), {read(parts), write(rows)});
  }

  const State& s_;
  HeadShape given_, shape_;  ///< what this rank gives to all, and what it gets
  std::uint64_t qkv_width_, context_width_;
  std::unique_ptr<AttentionCore> core_;
  BufferId qkv_copies_{}, copies_gradient_{};
  BufferId qkv_parts_{}, qkv_heads_{}, context_heads_{}, context_parts_{};
  BufferId context_gradient_parts_{}, context_heads_gradient_{}, qkv_heads_gradient_{}, qkv_gradient_parts_{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_ulysses(State& s) { return std::make_unique<Ulysses>(s); }

}  // namespace orrery::lowering
