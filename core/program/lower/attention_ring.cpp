#include "core/program/lower/attention.hpp"

namespace orrery::lowering {
namespace {

/// Keys and values go around the ring of ranks while each rank's queries meet
/// those that are there; parts of the context are merged by their log-sum-exp.
///
/// Buffers take turns: while attention reads one, the next keys arrive in another. In the backward pass, the gradients
/// of keys and values go around behind them. A rank's own keys come last there, so the first gradients start one place
/// on, and are home after one pass less than there are ranks.
///
/// A double ring is a ring of rings: keys go around an inner ring of w consecutive ranks, then on to the same place of
/// the next ring. In the backward pass the sums that an inner ring has made go on in the same way. So only c / w - 1
/// passes leave the inner rings, beside the passes inside.
class Ring : public AttentionCore {
 public:
  explicit Ring(State& s)
      : s_(s),
        shape_(local_heads(s)),
        width_(s.plan.inner_ring == 0 ? s.context : s.plan.inner_ring),
        rings_(s.context / width_) {
    const auto placed = [&](const std::string& name, DType dtype) {
      const BufferId id = layer_buffer(s, name, Role::workspace, dtype, s.tokens * pair_width(s));
      s.program.buffers[index(id)].shard = pair_shard(s, Rows::context);
      return id;
    };
    const std::uint64_t context = s.tokens * s.context_width;
    kv_[0] = placed("keys_values", s.act);
    kv_[1] = placed("keys_values.next", s.act);
    if (rings_ > 1) kv_[2] = placed("keys_values.next_ring", s.act);
    lse_ = layer_buffer(s, "lse", Role::statistic, s.state, s.heads * s.tokens);
    part_ = layer_buffer(s, "context.part", Role::workspace, s.state, context);
    part_lse_ = layer_buffer(s, "lse.part", Role::workspace, s.state, s.heads * s.tokens);
    // 16-bit contexts are merged in the state type.
    if (s.act != s.state) sum_ = layer_buffer(s, "context.sum", Role::workspace, s.state, context);
    // These buffers are separate ones, so that a lost pass does not find what recomputation left.
    again_[0] = placed("keys_values.again", s.act);
    inner_[0] = placed("keys_values.again.next", s.act);
    inner_[1] = again_[0];  // overwritten where there is one ring, because the own keys can be packed once more
    dq_ = layer_buffer(s, "attention.dq", Role::workspace, s.state, s.tokens * s.heads * key_width(s.model));
    dkv_[0] = placed("keys_values.gradient", s.state);
    dkv_[1] = placed("keys_values.gradient.next", s.state);
    dkv_part_ = placed("keys_values.gradient.part", s.state);
    if (rings_ == 1) return;
    again_[1] = placed("keys_values.again.next_ring", s.act);
    if (width_ > 2) inner_[1] = placed("keys_values.again.after_next", s.act);
    sum_of_rings_[0] = placed("keys_values.gradient.rings", s.state);
    sum_of_rings_[1] = placed("keys_values.gradient.rings.next", s.state);
  }

  void forward(BlockBuilder& b, const AttentionOperands& o) override {
    const BufferId sum = s_.act == s_.state ? o.context : sum_;
    b.compute(kernel(KernelKind::pack_keys_values, Pass::forward), {read(o.qkv), write(kv_[0])});
    std::uint32_t first = 0;  // of kv_: what an inner ring begins with
    for (std::uint32_t ring = 0; ring < rings_; ++ring) {
      for (std::uint32_t place = 0; place < width_; ++place) {
        const auto at = [&](std::uint32_t p) { return kv_[(first + p % 2) % 3]; };
        if (place + 1 < width_) inside(b, at(place), at(place + 1));
        if (place == 0 && ring + 1 < rings_) onwards(b, kv_[first], kv_[(first + 2) % 3]);
        Kernel attend = part(o, KernelKind::attention_part_forward, Pass::forward, ring, place);
        if (ring == 0 && place == 0) {  // the sinks count once
          const auto operands = with_sinks(s_, o, attend, {read(o.qkv), read(at(place)), write(sum), write(lse_)});
          b.compute(attend, operands);
          continue;
        }
        b.compute(attend, {read(o.qkv), read(at(place)), write(part_), write(part_lse_)});
        b.compute(kernel(KernelKind::attention_merge, Pass::forward),
                  {update(sum), update(lse_), read(part_), read(part_lse_)});
      }
      first = (first + 2) % 3;
    }
    if (sum != o.context) {
      b.compute(s_.kernel(KernelKind::convert, Pass::forward, s_.tokens, s_.context_width),
                {read(sum), write(o.context)});
    }
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    dq_begun_ = false;
    pack_again(b, o, again_[0]);
    BufferId gradient{};
    if (rings_ == 1) {
      gradient = backward_inside(b, o, 0, again_[0], [] {});
    } else {
      gradient = backward_onwards(b, o);
    }
    b.compute(kernel(KernelKind::unpack_gradients, Pass::input_gradient),
              {read(dq_), read(gradient), write(o.qkv_gradient)});
    sinks_backward(s_, b, o, lse_);
  }

 private:
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass) const { return attention_kernel(s_, shape_, kind, pass); }
  void pack_again(BlockBuilder& b, const AttentionOperands& o, BufferId to) {
    b.compute(kernel(KernelKind::pack_keys_values, Pass::input_gradient), {read(o.qkv), write(to)});
  }
  /// Passes keys to the next rank of the inner ring, and to the same place of the next ring.
  void inside(BlockBuilder& b, BufferId from, BufferId to) {
    b.pass_on(s_.context_group, 1, rings_ == 1 ? 0 : width_, {read(from), write(to)});
  }
  void onwards(BlockBuilder& b, BufferId from, BufferId to) {
    b.pass_on(s_.context_group, width_, 0, {read(from), write(to)});
  }
  void add(BlockBuilder& b, BufferId part, BufferId sum) {
    b.compute(s_.kernel(KernelKind::add_to, Pass::input_gradient, s_.tokens, pair_width(s_)),
              {read(part), update(sum)});
  }

  /// The keys from `ring` rings back meet the queries of this ring. Then the sums go on, and are home when the own
  /// ring's part is added.
  BufferId backward_onwards(BlockBuilder& b, const AttentionOperands& o) {
    onwards(b, again_[0], again_[1]);
    BufferId sum{};
    for (std::uint32_t ring = 1; ring < rings_; ++ring) {
      const BufferId keys = again_[ring % 2], next = again_[(ring + 1) % 2];
      BufferId made = backward_inside(b, o, ring, keys, [&] {
        if (ring + 1 < rings_) onwards(b, keys, next);
      });
      if (ring > 1) {
        add(b, made, sum);
        made = sum;
      }
      sum = sum_of_rings_[ring % 2];
      onwards(b, made, sum);
    }
    const BufferId own = again_[rings_ % 2];  // overwritten unless there are two rings
    if (rings_ > 2) pack_again(b, o, own);
    add(b, backward_inside(b, o, 0, own, [] {}), sum);
    return sum;
  }

  /// The keys and values in `keys` go around the inner ring. Their gradients, summed over all of its ranks, end at
  /// home.
  template <class AfterPass>
  BufferId backward_inside(BlockBuilder& b, const AttentionOperands& o, std::uint32_t ring, BufferId keys,
                           AfterPass after_pass) {
    const auto attend = [&](std::uint32_t place, BufferId kv, BufferId dkv) {
      b.compute(part(o, KernelKind::attention_part_backward, Pass::input_gradient, ring, place),
                {read(o.context_gradient), read(o.qkv), read(kv), read(o.context), read(lse_),
                 dq_begun_ ? update(dq_) : write(dq_), write(dkv)});
      dq_begun_ = true;
    };
    std::uint32_t at = 0;  // of dkv_
    const auto add_to_passed = [&](std::uint32_t place, BufferId kv) {
      inside(b, dkv_[at], dkv_[1 - at]);
      at = 1 - at;
      attend(place, kv, dkv_part_);
      add(b, dkv_part_, dkv_[at]);
    };
    const auto there = [&](std::uint32_t place) { return inner_[(place + 1) % 2]; };
    inside(b, keys, there(1));
    for (std::uint32_t place = 1; place < width_; ++place) {
      if (place + 1 < width_) inside(b, there(place), there(place + 1));
      if (place > 1) {
        add_to_passed(place, there(place));
        continue;
      }
      after_pass();
      attend(place, there(place), dkv_[0]);
    }
    if (rings_ == 1 && width_ > 2) pack_again(b, o, keys = there(width_));
    add_to_passed(0, keys);
    return dkv_[at];
  }

  /// The keys come from the rank `place` places back, in the ring that is `ring` rings back.
  [[nodiscard]] Kernel part(const AttentionOperands& o, KernelKind kind, Pass pass, std::uint32_t ring,
                            std::uint32_t place) const {
    Kernel k = brought_kernel(s_, *o.kind, kind, pass);
    k.depth = s_.tokens;
    k.site = static_cast<std::uint8_t>(ring * width_ + place);
    if (rings_ > 1) k.ring = width_;
    count_pairs(s_, k, [&](std::uint32_t rank) {
      const std::uint32_t inside = (rank + width_ - place) % width_;
      return (rank / width_ + rings_ - ring) % rings_ * width_ + inside;
    });
    return k;
  }

  const State& s_;
  HeadShape shape_;
  std::uint32_t width_, rings_;  ///< ranks of an inner ring, and number of inner rings
  bool dq_begun_ = false;
  BufferId kv_[3]{}, again_[2]{}, inner_[2]{}, lse_{}, part_{}, part_lse_{}, sum_{};
  BufferId dq_{}, dkv_[2]{}, dkv_part_{}, sum_of_rings_[2]{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_ring(State& s) { return std::make_unique<Ring>(s); }

}  // namespace orrery::lowering
