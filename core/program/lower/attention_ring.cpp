#include "core/program/lower/attention.hpp"

namespace orrery::lowering {
namespace {

/// Keys and values go around the ring of ranks while each rank's queries meet
/// those that are there; parts of the context are merged by their log-sum-exp.
///
/// Two buffers take turns: while attention reads one, the next keys arrive in
/// the other.  Backward, the gradients of keys and values go around behind
/// them.  A rank's own keys come last there: so the first gradients start one
/// place on, and are home after c - 1 passes instead of c.
class Ring : public AttentionCore {
 public:
  explicit Ring(State& s) : s_(s), shape_(local_heads(s)) {
    const std::uint64_t width = 2 * s.kv_heads * s.model.head_dim;
    const Shard own = {position_dim(s, Rows::context),
                       wide_sequences(s),
                       {s.model.kv_heads, s.model.kv_heads, {Axis::tensor}, false},
                       {2 * s.model.head_dim, 2 * s.model.head_dim, {}, false}};
    const auto placed = [&](const char* name, DType dtype) {
      const BufferId id = layer_buffer(s, name, Role::workspace, dtype, s.tokens * width);
      s.program.buffers[index(id)].shard = own;
      return id;
    };
    const std::uint64_t context = s.tokens * s.context_width;
    kv_[0] = placed("keys_values", s.act);
    kv_[1] = placed("keys_values.next", s.act);
    lse_ = layer_buffer(s, "lse", Role::statistic, s.state, s.heads * s.tokens);
    part_ = layer_buffer(s, "context.part", Role::workspace, s.state, context);
    part_lse_ = layer_buffer(s, "lse.part", Role::workspace, s.state, s.heads * s.tokens);
    // 16-bit contexts are merged in the state type.
    if (s.act != s.state) sum_ = layer_buffer(s, "context.sum", Role::workspace, s.state, context);
    // Of their own, so that a lost pass does not find what recomputation left.
    kv_again_[0] = placed("keys_values.again", s.act);
    kv_again_[1] = placed("keys_values.again.next", s.act);
    dq_ = layer_buffer(s, "attention.dq", Role::workspace, s.state, context);
    dkv_[0] = placed("keys_values.gradient", s.state);
    dkv_[1] = placed("keys_values.gradient.next", s.state);
    dkv_part_ = placed("keys_values.gradient.part", s.state);
  }

  void forward(BlockBuilder& b, const AttentionOperands& o) override {
    const BufferId sum = s_.act == s_.state ? o.context : sum_;
    b.compute(kernel(KernelKind::pack_keys_values, Pass::forward), {read(o.qkv), write(kv_[0])});
    for (std::uint32_t place = 0; place < s_.context; ++place) {
      const BufferId now = kv_[place % 2], next = kv_[(place + 1) % 2];
      if (place + 1 < s_.context) b.pass_on(s_.context_group, {read(now), write(next)});
      const Kernel attend = part(KernelKind::attention_part_forward, Pass::forward, place);
      if (place == 0) {
        b.compute(attend, {read(o.qkv), read(now), write(sum), write(lse_)});
        continue;
      }
      b.compute(attend, {read(o.qkv), read(now), write(part_), write(part_lse_)});
      b.compute(kernel(KernelKind::attention_merge, Pass::forward),
                {update(sum), update(lse_), read(part_), read(part_lse_)});
    }
    if (sum != o.context) {
      b.compute(s_.kernel(KernelKind::convert, Pass::forward, s_.tokens, s_.context_width),
                {read(sum), write(o.context)});
    }
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    const Pass pass = Pass::input_gradient;
    const auto attend = [&](std::uint32_t place, BufferId kv, Operand dkv) {
      b.compute(part(KernelKind::attention_part_backward, pass, place),
                {read(o.context_gradient), read(o.qkv), read(kv), read(o.context), read(lse_),
                 place == 1 ? write(dq_) : update(dq_), dkv});
    };
    const Kernel pack = kernel(KernelKind::pack_keys_values, pass);
    b.compute(pack, {read(o.qkv), write(kv_again_[0])});
    b.pass_on(s_.context_group, {read(kv_again_[0]), write(kv_again_[1])});
    std::uint32_t at = 0;  // of dkv_
    for (std::uint32_t place = 1; place < s_.context; ++place) {
      const BufferId now = kv_again_[place % 2], next = kv_again_[(place + 1) % 2];
      if (place + 1 < s_.context) b.pass_on(s_.context_group, {read(now), write(next)});
      if (place == 1) {
        attend(place, now, write(dkv_[0]));
      } else {
        add_to_passed(b, at, [&] { attend(place, now, write(dkv_part_)); });
      }
    }
    // The ring has overwritten the own keys, unless it has two ranks.
    BufferId own = kv_again_[0];
    if (s_.context > 2) {
      own = kv_again_[s_.context % 2];
      b.compute(pack, {read(o.qkv), write(own)});
    }
    add_to_passed(b, at, [&] { attend(0, own, write(dkv_part_)); });
    b.compute(kernel(KernelKind::unpack_gradients, pass), {read(dq_), read(dkv_[at]), write(o.qkv_gradient)});
  }

 private:
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass) const { return attention_kernel(s_, shape_, kind, pass); }

  /// Passes the gradients on while `attend` makes the next part of them.
  template <class Attend>
  void add_to_passed(BlockBuilder& b, std::uint32_t& at, Attend attend) {
    b.pass_on(s_.context_group, {read(dkv_[at]), write(dkv_[1 - at])});
    at = 1 - at;
    attend();
    b.compute(s_.kernel(KernelKind::add_to, Pass::input_gradient, s_.tokens, 2 * s_.kv_heads * s_.model.head_dim),
              {read(dkv_part_), update(dkv_[at])});
  }

  /// Pairs of query and key with the keys of the rank `place` places before,
  /// n = s / c positions each.  Own keys: n (n + 1) / 2.  Of others' a
  /// contiguous cut sees all n^2 where they are earlier ones, which they are on
  /// c - place of the ranks; zigzag sees half of them on every rank.
  [[nodiscard]] Kernel part(KernelKind kind, Pass pass, std::uint32_t place) const {
    Kernel k = kernel(kind, pass);
    const std::uint64_t n = s_.positions;
    k.depth = s_.tokens;
    k.site = static_cast<std::uint8_t>(place);
    if (place == 0) {
      k.columns = n * (n + 1) / 2;
      k.parameter = static_cast<double>(k.columns);
    } else if (s_.plan.zigzag) {
      k.columns = n * n / 2;
      k.parameter = static_cast<double>(k.columns);
    } else {
      k.columns = n * n;
      k.parameter = static_cast<double>(k.columns) * (s_.context - place) / s_.context;
    }
    return k;
  }

  const State& s_;
  HeadShape shape_;
  BufferId kv_[2]{}, kv_again_[2]{}, lse_{}, part_{}, part_lse_{}, sum_{}, dq_{}, dkv_[2]{}, dkv_part_{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_ring(State& s) { return std::make_unique<Ring>(s); }

}  // namespace orrery::lowering
