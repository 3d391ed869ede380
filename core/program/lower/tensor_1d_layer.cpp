#include "core/program/lower/attention.hpp"
#include "core/program/lower/latent_attention.hpp"
#include "core/program/lower/mixture_layer.hpp"
#include "core/program/lower/tensor_1d.hpp"

#include <algorithm>

namespace orrery::lowering {
namespace {

/// Declarations of layers' buffers and the compute order of the two blocks of each kind.
class Layer {
 public:
  explicit Layer(State& c) : c_(c), hidden_(c.hidden), gradient_(c.hidden_gradient) { declare(); }

  void build() {
    for (const LayerKind& kind : c_.kinds) {
      if (kind.prediction > 0) continue;
      module_ = &(c_.*kind.module);
      mixes_ = kind.mixture;
      build(kind);
    }
  }

 private:
  void build(const LayerKind& kind) {
    const std::string name = c_.program.parameter_tables[module_->table].module;
    BlockBuilder forward(c_, name + ".forward", Pass::forward, Section::model);
    // The stage's first layer takes what the embedding summed or the previous
    // stage sent; for all others these waits are over.
    if (c_.tensor > 1) forward.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
    if (c_.grid) forward.enter_after_tail(collective_lane(c_.program, c_.row_group));
    if (c_.pipeline > 1) forward.enter_after_tail(receive_lane(TransferLane::forward_receive));
    emit_forward(forward);
    c_.blocks(Phase::forward)[kind].plain = forward.finish(c_);
    BlockBuilder backward(c_, name + ".backward", Pass::input_gradient, Section::model);
    if (c_.pipeline > 1) backward.enter_after_tail(receive_lane(TransferLane::backward_receive));
    if (c_.split_backward) {
      BlockBuilder weight(c_, name + ".weight", Pass::weight_gradient, Section::model);
      emit_backward(backward, weight);
      c_.blocks(Phase::weight)[kind].plain = weight.finish(c_);
    } else {
      emit_backward(backward, backward);
    }
    c_.blocks(Phase::backward)[kind].plain = backward.finish(c_);
  }

  static Lane receive_lane(TransferLane lane) { return {LaneKind::transfer, static_cast<std::uint8_t>(lane)}; }
  [[nodiscard]] bool drop_hidden() const { return c_.workload.hidden_dropout > 0; }
  [[nodiscard]] bool swiglu() const { return c_.model.activation == Activation::swiglu; }
  [[nodiscard]] bool bias() const { return c_.model.biases.in_layers(); }
  [[nodiscard]] bool has_mixtures() const { return c_.model.mixture.has_value(); }
  [[nodiscard]] bool has_dense() const { return !has_mixtures() || mixes_kinds(c_.model); }

  BufferId flat(const char* name, Role role, DType dtype, std::uint64_t count) {
    return layer_buffer(c_, name, role, dtype, count);
  }

  void declare() {
    const ModelSpec& m = c_.model;
    const ShardDim feature{m.hidden, m.hidden, c_.layout.stream_features, false};
    const auto stream = [&](const char* name, Role role, DType dtype, bool sharded) {
      return c_.activation(name, role, Scope::layer_microbatch, dtype, feature, sharded);
    };
    const bool sp = c_.sequence_parallel;
    const std::uint64_t statistics = c_.rows * (m.norm == Norm::layer_norm ? 2 : 1);
    norm1_out_ = stream("norm1.out", Role::activation, c_.act, sp);
    norm1_stats_ = flat("norm1.stats", Role::statistic, c_.state, statistics);
    qkv_ = flat("qkv", Role::activation, c_.act, c_.tokens * c_.qkv_width);
    const ShardDim position = position_dim(c_, Rows::context);
    const ShardDim sequence = wide_sequences(c_);
    const std::uint64_t group_width = (m.heads / m.kv_heads + 1) * key_width(m) + value_width(m);
    c_.program.buffers[index(qkv_)].shard = qkv_shard(c_, Rows::context, c_.layout.wide_features);
    attention_ = attention_core(c_);
    const std::uint64_t query = m.heads * value_width(m);
    context_ = c_.activation("context", Role::activation, Scope::layer_microbatch, c_.act,
                             {query, query, c_.layout.wide_features, false}, false);
    c_.program.buffers[index(context_)].shard->dims[1] = sequence;
    attention_out_ = stream("attention.out", Role::workspace, c_.act, false);
    if (drop_hidden()) attention_mask_ = stream("attention.out.mask", Role::activation, DType::u8, sp);
    mid_ = stream("mid", Role::activation, c_.act, sp);
    norm2_out_ = stream("norm2.out", Role::activation, c_.act, sp);
    norm2_stats_ = flat("norm2.stats", Role::statistic, c_.state, statistics);
    if (has_mixtures()) {
      mixture_ = std::make_unique<MixtureLayer>(c_, norm2_out_);
      // Attention's buffer does not serve here: a message or product left out must not find that content in its place.
      if (sp) mixture_gathered_ = stream("experts.gathered", Role::workspace, c_.act, false);
      mixture_input_gradient_ = stream("experts.input.gradient", Role::workspace, c_.act, false);
      if (c_.grid) {
        const auto all = [&](const char* name) { return declare_all_features(c_, name, Scope::layer_microbatch); };
        mixture_in_ = all("experts.stream");
        mixture_out_ = all("experts.sum");
        mixture_out_gradient_ = all("experts.sum.gradient");
        mixture_in_gradient_ = all("experts.stream.gradient");
      }
    }
    if (has_dense()) {
      ffn_pre_ = flat("ffn.pre", Role::activation, c_.act, c_.tokens * up_width());
      ffn_act_ = flat("ffn.act", Role::activation, c_.act, c_.tokens * c_.ffn);
    }
    ffn_out_ = stream("ffn.out", Role::workspace, c_.act, false);
    if (drop_hidden()) ffn_mask_ = stream("ffn.out.mask", Role::activation, DType::u8, sp);
    if (sp) {
      gathered_ = stream("gathered", Role::workspace, c_.act, false);
      gathered_gradient_ = stream("gathered.gradient", Role::workspace, c_.act, false);
      attention_gathered_gradient_ = split() || has_mixtures()
                                         ? stream("attention.gathered.gradient", Role::workspace, c_.act, false)
                                         : gathered_gradient_;
      attention_part_ = stream("attention.part", Role::workspace, c_.act, true);
      ffn_part_ = stream("ffn.part", Role::workspace, c_.act, true);
      input_part_ = stream("input.gradient.part", Role::workspace, c_.act, true);
    }
    const bool recomputes = std::find(c_.recomputes.begin(), c_.recomputes.end(), true) != c_.recomputes.end();
    if (c_.plan.recompute == Recompute::full && recomputes)
      c_.recomputed = stream("recomputed", Role::workspace, c_.act, sp);
    if (drop_hidden()) {
      branch_gradient_ = stream("branch.gradient", Role::workspace, c_.act, sp);
      attention_branch_gradient_ =
          split() ? stream("attention.branch.gradient", Role::workspace, c_.act, sp) : branch_gradient_;
    }
    if (split()) mid_gradient_ = stream("mid.gradient", Role::workspace, c_.act, sp);
    if (has_dense()) ffn_act_gradient_ = flat("ffn.act.gradient", Role::workspace, c_.act, c_.tokens * c_.ffn);
    if (swiglu() && has_dense())
      ffn_pre_gradient_ = flat("ffn.pre.gradient", Role::workspace, c_.act, c_.tokens * up_width());
    context_gradient_ = flat("context.gradient", Role::workspace, c_.act, c_.tokens * c_.context_width);
    qkv_gradient_ = flat("qkv.gradient", Role::workspace, c_.act, c_.tokens * c_.qkv_width);
    // Rotations are turned back by positions, which the cut tells.
    if (c_.context > 1 || m.latent) c_.program.buffers[index(qkv_gradient_)].shard = c_.program[qkv_].shard;
    if (m.latent) latent_ = std::make_unique<LatentProjections>(c_, norm1_out_, qkv_, qkv_gradient_);
    input_gradient_ = stream("input.gradient", Role::workspace, c_.act, false);
    if (c_.grid) {
      // A grid makes a weight's gradient as parts in workspaces; these shards say whose tokens it is from.
      const auto tell = [&](BufferId buffer, const ShardDim& columns) {
        c_.program.buffers[index(buffer)].shard = Shard{position, sequence, columns};
      };
      const AxisList& wide = c_.layout.wide_features;
      if (has_dense()) tell(ffn_act_gradient_, {m.ffn, m.ffn, wide, false});
      if (swiglu() && has_dense()) tell(ffn_pre_gradient_, {2 * m.ffn, 2 * m.ffn, wide, false});
      tell(context_gradient_, {query, query, wide, false});
      if (!m.latent) tell(qkv_gradient_, {m.kv_heads * group_width, m.kv_heads * group_width, wide, false});
    }
  }

  [[nodiscard]] std::uint64_t up_width() const { return swiglu() ? 2 * c_.ffn : c_.ffn; }

  // --- forward -----------------------------------------------------------

  void emit_forward(BlockBuilder& b) {
    const ModelSpec& m = c_.model;
    c_.sharding.norm_forward(c_, b, norm1(), read(hidden_), write(norm1_out_), write(norm1_stats_));
    if (latent_) {
      latent_->forward(b, *module_, latent_->widens_stream() ? gathered(b, norm1_out_, gathered_) : norm1_out_);
    } else {
      c_.sharding.forward(c_, b, qkv(), gathered(b, norm1_out_, gathered_), qkv_);
    }
    if (!latent_ && m.positions == PositionEncoding::rotary) {
      Kernel rope = attention_kernel(c_, local_heads(c_), KernelKind::rope_forward, Pass::forward);
      rope.parameter = m.rope_theta;
      b.compute(rope, {update(qkv_)});
    }
    attention_->forward(b, attention_operands());
    // The product is row-parallel and gives partial sums; the bias is added after the sum.
    c_.sharding.forward(c_, b, out(), context_, attention_out_);
    const BufferId attention = summed(b, attention_out_, attention_part_);
    residual(b, attention, "attention.out.bias", read(hidden_), write(mid_), attention_mask_, 2);

    c_.sharding.norm_forward(c_, b, norm2(), read(mid_), write(norm2_out_), write(norm2_stats_));
    if (mixes_ && c_.grid) {
      gather_features(c_, b, Pass::forward, read(norm2_out_), mixture_in_);
      mixture_->forward(b, mixture_in_.rows, mixture_out_.rows);
      sum_features(c_, b, Pass::forward, mixture_out_, ffn_out_);
    } else if (mixes_) {
      mixture_->forward(b, gathered(b, norm2_out_, mixture_gathered_), ffn_out_);
    } else {
      const BufferId x2 = gathered(b, norm2_out_, gathered_);
      c_.sharding.forward(c_, b, up(), x2, ffn_pre_);
      b.compute(
          c_.kernel(swiglu() ? KernelKind::swiglu_forward : KernelKind::gelu_forward, Pass::forward, c_.tokens, c_.ffn),
          {read(ffn_pre_), write(ffn_act_)});
      c_.sharding.forward(c_, b, down(), ffn_act_, ffn_out_);
    }
    const BufferId ffn = summed(b, ffn_out_, ffn_part_);
    residual(b, ffn, "ffn.down.bias", read(mid_), write(hidden_, 1), ffn_mask_, 3);
  }

  [[nodiscard]] Product qkv() const {
    return {module_,         "attention.qkv.weight", bias() ? "attention.qkv.bias" : nullptr,
            c_.hidden_width, c_.qkv_width,           true};
  }
  [[nodiscard]] Product out() const {
    return {module_, "attention.out.weight", nullptr, c_.context_width, c_.hidden_width, false};
  }
  [[nodiscard]] Product up() const {
    return {module_, "ffn.up.weight", bias() ? "ffn.up.bias" : nullptr, c_.hidden_width, up_width(), true};
  }
  [[nodiscard]] Product down() const { return {module_, "ffn.down.weight", nullptr, c_.ffn, c_.hidden_width, false}; }
  [[nodiscard]] NormSite norm1() const { return {module_, "norm1.weight", "norm1.bias", "norm1"}; }
  [[nodiscard]] NormSite norm2() const { return {module_, "norm2.weight", "norm2.bias", "norm2"}; }

  /// The whole of a tensor that sequence parallelism keeps cut by positions.
  BufferId gathered(BlockBuilder& b, BufferId part, BufferId whole) {
    if (!c_.sequence_parallel) return part;
    b.seam(Collective::Kind::all_gather, {read(part), write(whole)});
    return whole;
  }

  /// Sum of every tensor rank's partial products, whole or cut by positions.
  BufferId summed(BlockBuilder& b, BufferId partial, BufferId part) {
    if (c_.tensor == 1) return partial;
    if (!c_.sequence_parallel) {
      b.seam(Collective::Kind::all_reduce, {update(partial)});
      return partial;
    }
    b.seam(Collective::Kind::reduce_scatter, {read(partial), write(part)});
    return part;
  }

  void residual(BlockBuilder& b, BufferId x, const char* bias_slice, Operand residual_in, Operand out, BufferId mask,
                std::uint8_t site) {
    Kernel k = c_.kernel(KernelKind::residual_forward, Pass::forward, c_.rows, c_.hidden_width);
    Operand operands[5];
    std::size_t n = 0;
    operands[n++] = read(x);
    if (bias()) {
      k.options.bias = true;
      operands[n++] = weight_of(c_, *module_, bias_slice);
    }
    operands[n++] = residual_in;
    operands[n++] = out;
    if (drop_hidden()) {
      k.options.dropout = true;
      k.parameter = c_.workload.hidden_dropout;
      k.site = site;
      operands[n++] = write(mask);
    }
    b.compute(k, std::span<const Operand>(operands, n));
  }

  [[nodiscard]] AttentionOperands attention_operands() const {
    return {qkv_, context_, context_gradient_, qkv_gradient_};
  }

  // --- backward ----------------------------------------------------------

  [[nodiscard]] bool split() const { return c_.split_backward; }

  /// `w` takes the weight gradients of products: it is `b` again, or the block that runs later.
  void emit_backward(BlockBuilder& b, BlockBuilder& w) {
    // Feed-forward branch.
    const Operand dy2 = branch_gradient(b, read(gradient_, split() ? 1 : 0), branch_gradient_, gathered_gradient_,
                                        ffn_mask_, "ffn.down.bias", 3);
    if (mixes_) {
      mixture_backward(b, w, dy2);
    } else {
      dense_backward(b, w, dy2);
    }
    attention_backward(b, w);
  }

  void dense_backward(BlockBuilder& b, BlockBuilder& w, Operand dy2) {
    const BufferId x2 = gathered(w, norm2_out_, gathered_);  // again, for the weight gradient
    c_.sharding.input_gradient(c_, b, down(), dy2, ffn_act_gradient_);
    c_.sharding.weight_gradient(c_, w, down(), ffn_act_, dy2);
    BufferId dpre = ffn_act_gradient_;
    const Kernel activation = c_.kernel(swiglu() ? KernelKind::swiglu_backward : KernelKind::gelu_backward,
                                        Pass::input_gradient, c_.tokens, c_.ffn);
    if (swiglu()) {
      dpre = ffn_pre_gradient_;
      b.compute(activation, {read(ffn_pre_), read(ffn_act_gradient_), write(dpre)});
    } else {
      b.compute(activation, {read(ffn_pre_), update(dpre)});
    }
    column_gradients(b, w, up(), dpre, x2, norm2(), mid_, norm2_stats_, read(gradient_, 1), mid_gradient_);
  }

  void mixture_backward(BlockBuilder& b, BlockBuilder& w, Operand dy2) {
    BufferId dx = mixture_input_gradient_;
    if (c_.grid) {
      if (c_.pipeline > 1 && dy2.buffer == gradient_) b.after_tail(receive_lane(TransferLane::backward_receive));
      gather_features(c_, b, Pass::input_gradient, dy2, mixture_out_gradient_);
      if (mixture_->takes_input_again()) gather_features(c_, w, Pass::weight_gradient, read(norm2_out_), mixture_in_);
      mixture_->backward(b, w, read(mixture_out_gradient_.rows), mixture_in_.rows, mixture_in_gradient_.rows);
      sum_features(c_, b, Pass::input_gradient, mixture_in_gradient_, dx);
    } else {
      const BufferId x2 = mixture_->takes_input_again() ? gathered(w, norm2_out_, mixture_gathered_) : norm2_out_;
      mixture_->backward(b, w, dy2, x2, dx);
      dx = summed(b, dx, input_part_);
    }
    mixture_->router_gradients(b, w);
    mixture_->router_backward(b, w, dx);
    norm_gradients(b, norm2(), dx, mid_, norm2_stats_, read(gradient_, 1), mid_gradient_);
  }

  void attention_backward(BlockBuilder& b, BlockBuilder& w) {
    const ModelSpec& m = c_.model;
    const Operand dy1 = branch_gradient(b, read(split() ? mid_gradient_ : gradient_), attention_branch_gradient_,
                                        attention_gathered_gradient_, attention_mask_, "attention.out.bias", 2);
    const bool whole_input = !latent_ || latent_->widens_stream();
    const BufferId x1 = whole_input ? gathered(w, norm1_out_, gathered_) : norm1_out_;
    c_.sharding.input_gradient(c_, b, out(), dy1, context_gradient_);
    c_.sharding.weight_gradient(c_, w, out(), context_, dy1);
    attention_->backward(b, attention_operands());
    if (latent_) {
      latent_->backward(b, w, *module_, x1);
      norm_gradients(b, norm1(), latent_->input_gradient(), hidden_, norm1_stats_, read(mid_gradient_), gradient_);
      return;
    }
    if (m.positions == PositionEncoding::rotary) {
      Kernel rope = attention_kernel(c_, local_heads(c_), KernelKind::rope_backward, Pass::input_gradient);
      rope.parameter = m.rope_theta;
      b.compute(rope, {update(qkv_gradient_)});
    }
    column_gradients(b, w, qkv(), qkv_gradient_, x1, norm1(), hidden_, norm1_stats_, read(mid_gradient_), gradient_);
  }

  /// Gradient of a branch's output, through dropout (into `dropped`) and bias, whole (in `whole`).
  Operand branch_gradient(BlockBuilder& b, Operand gradient, BufferId dropped, BufferId whole, BufferId mask,
                          const char* bias_slice, std::uint8_t site) {
    Operand dy = gradient;
    if (drop_hidden()) {
      Kernel k = c_.kernel(KernelKind::dropout_backward, Pass::input_gradient, c_.rows, c_.hidden_width);
      k.options.dropout = true;
      k.parameter = c_.workload.hidden_dropout;
      k.site = site;
      b.compute(k, {gradient, read(mask), write(dropped)});
      dy = read(dropped);
    }
    if (bias()) {
      b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, c_.rows, c_.hidden_width),
                {dy, gradient_of(c_, *module_, bias_slice)});
    }
    if (!c_.sequence_parallel) return dy;
    // Nothing before it on the compute lane produces what the next stage sent.
    if (c_.pipeline > 1 && dy.buffer == gradient_) b.after_tail(receive_lane(TransferLane::backward_receive));
    b.seam(Collective::Kind::all_gather, {dy, write(whole)});
    return read(whole);
  }

  /// Backward of norm and column-parallel product.  The input gradient's sum
  /// runs beside the weight gradient, unless that runs later.  The result is
  /// added to the gradient, or, where backward is split, its sum with `residual` is `out`.
  void column_gradients(BlockBuilder& b, BlockBuilder& w, const Product& p, BufferId dy, BufferId x,
                        const NormSite& norm, BufferId norm_in, BufferId stats, Operand residual, BufferId out) {
    c_.sharding.input_gradient(c_, b, p, read(dy), input_gradient_);
    const BufferId dx = summed(b, input_gradient_, input_part_);
    c_.sharding.weight_gradient(c_, w, p, x, read(dy));
    if (p.bias != nullptr) {
      b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, c_.tokens, p.out),
                {read(dy), gradient_of(c_, *p.module, p.bias)});
    }
    norm_gradients(b, norm, dx, norm_in, stats, residual, out);
  }

  void norm_gradients(BlockBuilder& b, const NormSite& norm, BufferId dx, BufferId norm_in, BufferId stats,
                      Operand residual, BufferId out) {
    if (split()) {
      c_.sharding.norm_backward(c_, b, norm, read(dx), read(norm_in), read(stats), write(out), residual);
    } else {
      c_.sharding.norm_backward(c_, b, norm, read(dx), read(norm_in), read(stats), update(gradient_), std::nullopt);
    }
  }

  State& c_;
  // The module of the kind of layer that is being built; kinds share all buffers except those of their feed-forward
  // parts.
  const Module* module_ = nullptr;
  bool mixes_ = false;  ///< a mixture in place of the dense feed-forward part
  std::unique_ptr<AttentionCore> attention_;
  std::unique_ptr<MixtureLayer> mixture_;
  std::unique_ptr<LatentProjections> latent_;  ///< in place of the product that makes queries, keys and values
  BufferId hidden_, gradient_;
  BufferId norm1_out_{}, norm1_stats_{}, qkv_{}, context_{}, attention_out_{}, attention_mask_{}, mid_{}, norm2_out_{},
      norm2_stats_{}, ffn_pre_{}, ffn_act_{}, ffn_out_{}, ffn_mask_{};
  BufferId gathered_{}, gathered_gradient_{}, attention_part_{}, ffn_part_{}, input_part_{}, branch_gradient_{},
      ffn_act_gradient_{}, ffn_pre_gradient_{}, context_gradient_{}, qkv_gradient_{}, input_gradient_{};
  BufferId mixture_gathered_{}, mixture_input_gradient_{};
  AllFeatures mixture_in_, mixture_out_, mixture_out_gradient_, mixture_in_gradient_;  ///< on a grid
  // Where backward is split, the attention branch and the gradient between the branches have buffers of their own.
  BufferId attention_branch_gradient_{}, attention_gathered_gradient_{}, mid_gradient_{};
};

}  // namespace

void build_layer(State& c) {
  if (c.model.architecture == Architecture::bert) return build_post_norm_layer(c);
  Layer(c).build();
}

}  // namespace orrery::lowering
