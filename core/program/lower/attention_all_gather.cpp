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
    b.compute(part(KernelKind::attention_part_forward, Pass::forward),
              {read(o.qkv), read(all_), write(o.context), write(lse_)});
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    b.compute(part(KernelKind::attention_part_backward, Pass::input_gradient),
              {read(o.context_gradient), read(o.qkv), read(all_), read(o.context), read(lse_), write(dq_),
               write(all_gradient_)});
    b.seam(Collective::Kind::reduce_scatter, s_.context_group, {read(all_gradient_), write(own_gradient_)});
    b.compute(kernel(KernelKind::unpack_gradients, Pass::input_gradient),
              {read(dq_), read(own_gradient_), write(o.qkv_gradient)});
  }

 private:
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass) const { return attention_kernel(s_, shape_, kind, pass); }

  /// Pairs of query and key: positions p = 0 .. s-1 see p + 1 keys each, so the mean over c ranks is s (s + 1) / 2c.
  /// Zigzag gives every rank exactly that. With contiguous parts of n = s / c, the last rank sees n (s - n) + n (n + 1)
  /// / 2. Without a mask every rank sees n s.
  [[nodiscard]] Kernel part(KernelKind kind, Pass pass) const {
    Kernel k = brought_kernel(s_, kind, pass);
    const std::uint64_t s = s_.workload.sequence_length, n = s_.positions;
    k.depth = s_.tokens * s_.context;
    if (!k.options.causal) {
      k.columns = n * s;
      k.parameter = static_cast<double>(k.columns);
      return k;
    }
    k.parameter = static_cast<double>(n) * static_cast<double>(s + 1) / 2.0;
    k.columns = s_.plan.zigzag ? n * (s + 1) / 2 : n * (s - n) + n * (n + 1) / 2;
    return k;
  }

  const State& s_;
  HeadShape shape_;
  BufferId own_{}, all_{}, lse_{}, dq_{}, all_gradient_{}, own_gradient_{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_all_gather(State& s) { return std::make_unique<AllGather>(s); }

}  // namespace orrery::lowering
