#include "core/program/lower/attention.hpp"

namespace orrery::lowering {
namespace {

/// Ring self-attention (Li et al., "Sequence Parallelism: Long Sequence Training
/// from System Perspective", 2021, section 3.2): keys go around until each rank
/// has the scores of its queries with all of them, then the values.
///
/// In the backward pass values go around, then keys. Every rank makes gradients of all keys and values from its own
/// queries; they are summed over all ranks, and each rank goes on with its own.
class RingScores : public AttentionCore {
 public:
  explicit RingScores(State& s) : s_(s) {
    const std::uint64_t key = key_width(s.model), value = value_width(s.model);
    const auto placed = [&](const char* name, std::uint64_t width) {
      const BufferId id = layer_buffer(s, name, Role::workspace, s.act, s.tokens * s.kv_heads * width);
      Shard shard = pair_shard(s, Rows::context);
      shard.dims[3] = {width, width, {}, false};
      s.program.buffers[index(id)].shard = shard;
      return id;
    };
    const std::uint64_t scores = s.context * piece();
    forward_ = {{placed("keys", key), placed("keys.next", key)},
                {placed("values", value), placed("values.next", value)}};
    scores_ = layer_buffer(s, "scores", Role::workspace, s.state, scores);
    probabilities_ = layer_buffer(s, "probabilities", Role::activation, s.act, scores);
    weights_ = probabilities_;
    if (drops()) {
      mask_ = layer_buffer(s, "mask", Role::activation, DType::u8, scores);
      weights_ = layer_buffer(s, "dropped", Role::activation, s.act, scores);
    }
    // 16-bit contexts are summed in the state type.
    if (s.act != s.state) {
      sum_ = layer_buffer(s, "context.sum", Role::workspace, s.state, s.tokens * s.context_width);
    }
    // These buffers are separate ones, so that a lost pass does not find what recomputation left.
    backward_ = {{placed("keys.again", key), placed("keys.again.next", key)},
                 {placed("values.again", value), placed("values.again.next", value)}};
    dscores_ = layer_buffer(s, "attention.dscores", Role::workspace, s.state, scores);
    dq_ = layer_buffer(s, "attention.dq", Role::workspace, s.state, s.tokens * s.heads * key);
    dpairs_ = layer_buffer(s, "keys_values.all.gradient", Role::workspace, s.act, s.context * s.tokens * pair_width(s));
    s.program.buffers[index(dpairs_)].shard = pair_shard(s, Rows::whole);
  }

  void forward(BlockBuilder& b, const AttentionOperands& o) override {
    const Pass pass = Pass::forward;
    b.compute(kernel(KernelKind::split_keys_values, pass),
              {read(o.qkv), write(forward_.keys[0]), write(forward_.values[0])});
    around(b, forward_.keys, [&](std::uint32_t place, BufferId keys) {
      const Kernel k = dropped(scoring(o, KernelKind::attention_scores_forward, pass, place));
      if (drops()) {
        b.compute(k, {read(o.qkv), read(keys), at(place, write(scores_)), at(place, write(mask_))});
      } else {
        b.compute(k, {read(o.qkv), read(keys), at(place, write(scores_))});
      }
    });
    const Kernel softmax = dropped(with_all(KernelKind::attention_softmax_forward, pass));
    if (drops()) {
      b.compute(softmax, {read(scores_), write(probabilities_), read(mask_), write(weights_)});
    } else {
      b.compute(softmax, {read(scores_), write(probabilities_)});
    }
    const BufferId sum = s_.act == s_.state ? o.context : sum_;
    around(b, forward_.values, [&](std::uint32_t place, BufferId values) {
      b.compute(brought(KernelKind::attention_values_forward, pass, place),
                {at(place, read(weights_)), read(values), place == 0 ? write(sum) : update(sum)});
    });
    if (sum != o.context) {
      b.compute(s_.kernel(KernelKind::convert, pass, s_.tokens, s_.context_width), {read(sum), write(o.context)});
    }
  }

  void backward(BlockBuilder& b, const AttentionOperands& o) override {
    const Pass pass = Pass::input_gradient;
    b.compute(kernel(KernelKind::split_keys_values, pass),
              {read(o.qkv), write(backward_.keys[0]), write(backward_.values[0])});
    around(b, backward_.values, [&](std::uint32_t place, BufferId values) {
      b.compute(brought(KernelKind::attention_values_backward, pass, place),
                {read(o.context_gradient), read(values), at(place, write(dscores_))});
    });
    const Kernel softmax = dropped(with_all(KernelKind::attention_softmax_backward, pass));
    if (drops()) {
      b.compute(softmax, {read(probabilities_), read(mask_), update(dscores_)});
    } else {
      b.compute(softmax, {read(probabilities_), update(dscores_)});
    }
    around(b, backward_.keys, [&](std::uint32_t place, BufferId keys) {
      b.compute(scoring(o, KernelKind::attention_scores_backward, pass, place),
                {at(place, read(dscores_)), read(keys), place == 0 ? write(dq_) : update(dq_)});
    });
    Kernel pairs = scoring(o, KernelKind::attention_pairs_backward, pass, 0);
    pairs.depth = s_.context * s_.tokens;
    b.compute(pairs, {read(o.context_gradient), read(o.qkv), read(weights_), read(dscores_), write(dpairs_)});
    b.seam(Collective::Kind::all_reduce, s_.context_group, {update(dpairs_)});
    b.compute(kernel(KernelKind::unpack_gradients, pass),
              {read(dq_),
               {dpairs_, View::Use::read, 0, 0, s_.tokens * pair_width(s_), {Axis::context}},
               write(o.qkv_gradient)});
  }

 private:
  /// There are two buffers of each, which take turns.
  struct Travelling {
    BufferId keys[2], values[2];
  };

  [[nodiscard]] bool drops() const { return s_.workload.attention_dropout > 0; }
  /// Scores with the keys of one rank.
  [[nodiscard]] std::uint64_t piece() const { return s_.heads * s_.tokens * s_.positions; }
  [[nodiscard]] Operand at(std::uint32_t place, Operand scores) const {
    scores.offset = place * piece();
    scores.count = piece();
    return scores;
  }

  /// The content of the first buffer goes around; use(place, buffer) takes it from `place` ranks back.
  template <class Use>
  void around(BlockBuilder& b, const BufferId (&turns)[2], Use use) {
    for (std::uint32_t place = 0; place < s_.context; ++place) {
      const BufferId now = turns[place % 2], next = turns[(place + 1) % 2];
      if (place + 1 < s_.context) b.pass_on(s_.context_group, 1, 0, {read(now), write(next)});
      use(place, now);
    }
  }

  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass) const {
    return attention_kernel(s_, local_heads(s_), kind, pass);
  }
  [[nodiscard]] Kernel with_all(KernelKind kind, Pass pass) const {
    Kernel k = brought(kind, pass, 0);
    k.depth = s_.context * s_.tokens;
    return k;
  }
  [[nodiscard]] Kernel brought(KernelKind kind, Pass pass, std::uint32_t place) const {
    return at_place(kernel(kind, pass), place);
  }
  [[nodiscard]] Kernel scoring(const AttentionOperands& o, KernelKind kind, Pass pass, std::uint32_t place) const {
    return at_place(scoring_kernel(s_, local_heads(s_), *o.kind, kind, pass), place);
  }
  [[nodiscard]] Kernel at_place(Kernel k, std::uint32_t place) const {
    k.columns = 0;
    k.depth = s_.tokens;
    k.site = static_cast<std::uint8_t>(place);
    return k;
  }
  [[nodiscard]] Kernel dropped(Kernel k) const {
    if (drops()) {
      k.options.dropout = true;
      k.parameter = s_.workload.attention_dropout;
    }
    return k;
  }

  const State& s_;
  Travelling forward_{}, backward_{};
  BufferId scores_{}, probabilities_{}, mask_{}, weights_{}, sum_{}, dscores_{}, dq_{}, dpairs_{};
};

}  // namespace

std::unique_ptr<AttentionCore> attention_ring_scores(State& s) { return std::make_unique<RingScores>(s); }

}  // namespace orrery::lowering
