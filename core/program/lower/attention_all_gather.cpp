#include "core/program/lower/attention.hpp"

namespace orrery::lowering {
namespace {

/// Local queries meet the keys and values of the whole sequence, which each
/// rank gathers and keeps for the backward pass.  The gradients of all keys
/// and values are scattered back to their positions as sums.
class AllGather : public AttentionCore {
 public:
  explicit AllGather(State& s) : s_(s), shape_(local_heads(s)) {
    const std::uint64_t width = pair_width(s);
    const auto all = [&](const char* name, Role role) {
      const BufferId id = layer_buffer(s, name, role, s.act, s.context * s.tokens * width);
      s.program.buffers[index(id)].shard = pair_shard(s, Rows::whole);
      return id;
    };
    own_ = layer_buffer(s, "keys_values", Role::workspace, s.act, s.tokens * width);
    all_ = all("keys_values.all", Role::activation);
    lse_ = layer_buffer(s, "lse", Role::statistic, s.state, s.heads * s.tokens);
    dq_ = layer_buffer(s, "attention.dq", Role::workspace, s.act, s.tokens * s.heads * key_width(s.model));
    all_gradient_ = all("keys_values.all.gradient", Role::workspace);
    own_gradient_ = layer_buffer(s, "keys_values.gradient", Role::workspace, s.act, s.tokens * width);
  }

  void forward(BlockBuilder& b, const AttentionOperands& o) override {
    b.compute(kernel(KernelKind::pack_keys_values, Pass::forward), {read(o.qkv), write(own_)});
    b.seam(Collective::Kind::all_gather, s_.context_group, {read(own_), write(all_)});
    Kernel k = part(o, KernelKind::attention_part_forward, Pass::forward);
    const auto operands = with_sinks(s_, o, k, {read(o.qkv), read(all_), write(o.context), write(lse_)});
    b.compute(k, operands);
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    b.compute(part(o, KernelKind::attention_part_backward, Pass::input_gradient),
              {read(o.context_gradient), read(o.qkv), read(all_), read(o.context), read(lse_), write(dq_),
               write(all_gradient_)});
    sinks_backward(s_, b, o, lse_);
    b.seam(Collective::Kind::reduce_scatter, s_.context_group, {read(all_gradient_), write(own_gradient_)});
    b.compute(kernel(KernelKind::unpack_gradients, Pass::input_gradient),
              {read(dq_), read(own_gradient_), write(o.qkv_gradient)});
  }

 private:
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass) const { return attention_kernel(s_, shape_, kind, pass); }

  [[nodiscard]] Kernel part(const AttentionOperands& o, KernelKind kind, Pass pass) const {
    Kernel k = brought_kernel(s_, *o.kind, kind, pass);
    k.depth = s_.tokens * s_.context;
    count_pairs(s_, k, nullptr);
    return k;
  }

  const State& s_;
  HeadShape shape_;
  BufferId own_{}, all_{}, lse_{}, dq_{}, all_gradient_{}, own_gradient_{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_all_gather(State& s) { return std::make_unique<AllGather>(s); }

}  // namespace orrery::lowering
