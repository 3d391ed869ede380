#include <algorithm>

#include "core/program/lower/attention.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {
namespace {

/// BERT's layer (Devlin et al. 2019; the order of Vaswani et al. 2017):
///
///     mid = norm1(x + dropout(attention(x)))        y = norm2(mid + dropout(feed-forward(mid)))
///
/// Activations kept for the backward pass, in 16 bits, without a tensor axis: x, mid and the two sums 8 sbh, queries,
/// keys and values 6, context 2, feed-forward 16, two masks 2. That is the 34 sbh of layers with norms in front, beside
/// the attention core.
class PostNormLayer {
 public:
  explicit PostNormLayer(State& c) : c_(c), hidden_(c.hidden), gradient_(c.hidden_gradient) { declare(); }

  void build() {
    BlockBuilder forward(c_, "layer.forward", Pass::forward, Section::model);
    if (c_.tensor > 1) forward.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
    if (c_.grid) forward.enter_after_tail(collective_lane(c_.program, c_.row_group));
    if (c_.pipeline > 1) forward.enter_after_tail(receive_lane(TransferLane::forward_receive));
    emit_forward(forward);
    c_.blocks(Phase::forward)[c_.kinds.front()].plain = forward.finish(c_);
    BlockBuilder backward(c_, "layer.backward", Pass::input_gradient, Section::model);
    // The head hands down what is summed there.
    if (c_.grid) backward.enter_after_tail(collective_lane(c_.program, c_.column_group));
    if (c_.pipeline > 1) backward.enter_after_tail(receive_lane(TransferLane::backward_receive));
    if (c_.split_backward) {
      BlockBuilder weight(c_, "layer.weight", Pass::weight_gradient, Section::model);
      emit_backward(backward, weight);
      c_.blocks(Phase::weight)[c_.kinds.front()].plain = weight.finish(c_);
    } else {
      emit_backward(backward, backward);
    }
    c_.blocks(Phase::backward)[c_.kinds.front()].plain = backward.finish(c_);
  }

 private:
  /// The way back through one part of the layer, from its sum with the residual: the gradient of the sum, of the part
  /// behind dropout, and whole.
  struct Branch {
    BufferId part{}, summed{}, mask{}, sum{}, stats{}, sum_gradient{}, dropped{}, whole{}, input_gradient{},
        input_part{};
    const char* bias;
    NormSite norm;
    std::uint8_t site;
  };

  [[nodiscard]] bool drops() const { return c_.workload.hidden_dropout > 0; }

  BufferId stream(std::string name, Role role, DType dtype, bool part) {
    const ShardDim feature{c_.model.hidden, c_.model.hidden, c_.layout.stream_features, false};
    return c_.activation(std::move(name), role, Scope::layer_microbatch, dtype, feature, part && c_.sequence_parallel);
  }
  BufferId flat(const char* name, Role role, std::uint64_t count) {
    return layer_buffer(c_, name, role, c_.act, count);
  }

  void declare_branch(Branch& branch, const std::string& name) {
    branch.part = stream(name + ".out", Role::workspace, c_.act, false);
    if (drops()) branch.mask = stream(name + ".out.mask", Role::activation, DType::u8, true);
    if (c_.sequence_parallel) {
      branch.summed = stream(name + ".part", Role::workspace, c_.act, true);
      branch.input_part = stream(name + ".input.gradient.part", Role::workspace, c_.act, true);
    }
    branch.sum = stream(name + ".sum", Role::activation, c_.act, true);
    branch.stats = layer_buffer(c_, name + ".norm.stats", Role::statistic, c_.state, 2 * c_.rows);
    branch.sum_gradient = stream(name + ".sum.gradient", Role::workspace, c_.act, true);
    branch.dropped = drops() ? stream(name + ".gradient", Role::workspace, c_.act, true) : branch.sum_gradient;
    branch.whole =
        c_.sequence_parallel ? stream(name + ".gradient.whole", Role::workspace, c_.act, false) : branch.dropped;
  }

  void declare() {
    qkv_ = flat("qkv", Role::activation, c_.tokens * c_.qkv_width);
    c_.program.buffers[index(qkv_)].shard = qkv_shard(c_, Rows::context, c_.layout.wide_features);
    core_ = attention_core(c_);
    const std::uint64_t width = c_.model.heads * c_.model.head_dim;
    context_ = c_.activation("context", Role::activation, Scope::layer_microbatch, c_.act,
                             {width, width, c_.layout.wide_features, false}, false);
    c_.program.buffers[index(context_)].shard->dims[1] = wide_sequences(c_);
    declare_branch(attention_, "attention");
    mid_ = stream("mid", Role::activation, c_.act, true);
    pre_ = flat("ffn.pre", Role::activation, c_.tokens * c_.ffn);
    act_ = flat("ffn.act", Role::activation, c_.tokens * c_.ffn);
    declare_branch(ffn_, "ffn");
    if (c_.sequence_parallel) {
      gathered_ = stream("gathered", Role::workspace, c_.act, false);
    }
    const bool recomputes = std::find(c_.recomputes.begin(), c_.recomputes.end(), true) != c_.recomputes.end();
    if (c_.plan.recompute == Recompute::full && recomputes)
      c_.recomputed = stream("recomputed", Role::workspace, c_.act, true);
    act_gradient_ = flat("ffn.act.gradient", Role::workspace, c_.tokens * c_.ffn);
    context_gradient_ = flat("context.gradient", Role::workspace, c_.tokens * c_.context_width);
    qkv_gradient_ = flat("qkv.gradient", Role::workspace, c_.tokens * c_.qkv_width);
    if (c_.context > 1) c_.program.buffers[index(qkv_gradient_)].shard = c_.program[qkv_].shard;
    if (c_.grid) {
      // A grid makes a weight's gradient as parts in workspaces; these shards say whose tokens it is from.
      const auto tell = [&](BufferId buffer, std::uint64_t columns) {
        c_.program.buffers[index(buffer)].shard = Shard{
            position_dim(c_, Rows::context), wide_sequences(c_), {columns, columns, c_.layout.wide_features, false}};
      };
      tell(act_gradient_, c_.model.ffn);
      tell(context_gradient_, width);
      c_.program.buffers[index(qkv_gradient_)].shard = c_.program[qkv_].shard;
    }
    attention_.input_gradient = stream("input.gradient", Role::workspace, c_.act, false);
    // A grid has a buffer of its own here, so that a lost sum does not find the other branch's.
    ffn_.input_gradient =
        c_.grid ? stream("ffn.input.gradient", Role::workspace, c_.act, false) : attention_.input_gradient;
    mid_gradient_ = stream("mid.gradient", Role::workspace, c_.act, true);
    attention_.bias = "attention.out.bias";
    attention_.norm = {&c_.layer, "norm1.weight", "norm1.bias", "norm1"};
    attention_.site = 2;
    ffn_.bias = "ffn.down.bias";
    ffn_.norm = {&c_.layer, "norm2.weight", "norm2.bias", "norm2"};
    ffn_.site = 3;
  }

  [[nodiscard]] Product qkv() const {
    return {&c_.layer, "attention.qkv.weight", "attention.qkv.bias", c_.hidden_width, c_.qkv_width, true};
  }
  [[nodiscard]] Product out() const {
    return {&c_.layer, "attention.out.weight", nullptr, c_.context_width, c_.hidden_width, false};
  }
  [[nodiscard]] Product up() const {
    return {&c_.layer, "ffn.up.weight", "ffn.up.bias", c_.hidden_width, c_.ffn, true};
  }
  [[nodiscard]] Product down() const { return {&c_.layer, "ffn.down.weight", nullptr, c_.ffn, c_.hidden_width, false}; }
  [[nodiscard]] AttentionOperands core_operands() const {
    return {qkv_, context_, context_gradient_, qkv_gradient_, &c_.kinds.front()};
  }

  BufferId gathered(BlockBuilder& b, BufferId part) {
    if (!c_.sequence_parallel) return part;
    b.seam(Collective::Kind::all_gather, {read(part), write(gathered_)});
    return gathered_;
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

  void emit_forward(BlockBuilder& b) {
    c_.sharding.forward(c_, b, qkv(), gathered(b, hidden_), qkv_);
    core_->forward(b, core_operands());
    c_.sharding.forward(c_, b, out(), context_, attention_.part);
    close(b, attention_, read(hidden_), write(mid_));
    {
      const BlockBuilder::Part part(b, RecomputeModule::mlp);
      c_.sharding.forward(c_, b, up(), gathered(b, mid_), pre_);
      b.compute(c_.kernel(KernelKind::gelu_forward, Pass::forward, c_.tokens, c_.ffn), {read(pre_), write(act_)});
      c_.sharding.forward(c_, b, down(), act_, ffn_.part);
    }
    close(b, ffn_, read(mid_), write(hidden_, 1));
  }

  /// Adds the residual, then norms.
  void close(BlockBuilder& b, const Branch& branch, Operand residual, Operand out) {
    const BufferId x = summed(b, branch.part, branch.summed);
    Kernel k = c_.kernel(KernelKind::residual_forward, Pass::forward, c_.rows, c_.hidden_width);
    k.options.bias = true;
    const Operand bias = weight_of(c_, c_.layer, branch.bias);
    if (drops()) {
      k.options.dropout = true;
      k.parameter = c_.workload.hidden_dropout;
      k.site = branch.site;
      b.compute(k, {read(x), bias, residual, write(branch.sum), write(branch.mask)});
    } else {
      b.compute(k, {read(x), bias, residual, write(branch.sum)});
    }
    c_.sharding.norm_forward(c_, b, branch.norm, read(branch.sum), out, write(branch.stats));
  }

  /// `w` takes the weight gradients of products: it is `b` again, or the block that runs later.
  void emit_backward(BlockBuilder& b, BlockBuilder& w) {
    const Operand dy2 = open(b, ffn_, read(gradient_, c_.split_backward ? 1 : 0));
    c_.sharding.input_gradient(c_, b, down(), dy2, act_gradient_);
    const BufferId x2 = gathered(w, mid_);
    c_.sharding.weight_gradient(c_, w, down(), act_, dy2);
    b.compute(c_.kernel(KernelKind::gelu_backward, Pass::input_gradient, c_.tokens, c_.ffn),
              {read(pre_), update(act_gradient_)});
    column_gradients(b, w, up(), act_gradient_, x2, ffn_, mid_gradient_);
    const Operand dy1 = open(b, attention_, read(mid_gradient_));
    c_.sharding.input_gradient(c_, b, out(), dy1, context_gradient_);
    const BufferId x1 = gathered(w, hidden_);
    c_.sharding.weight_gradient(c_, w, out(), context_, dy1);
    core_->backward(b, core_operands());
    column_gradients(b, w, qkv(), qkv_gradient_, x1, attention_, gradient_);
  }

  /// Goes from the gradient of the norm's output to the branch's, whole; the gradient of the sum stays for the
  /// residual.
  Operand open(BlockBuilder& b, const Branch& branch, Operand dy) {
    b.compute(c_.kernel(KernelKind::fill, Pass::input_gradient, c_.rows, c_.hidden_width),
              {write(branch.sum_gradient)});
    c_.sharding.norm_backward(c_, b, branch.norm, dy, read(branch.sum), read(branch.stats), update(branch.sum_gradient),
                              std::nullopt);
    if (drops()) {
      Kernel k = c_.kernel(KernelKind::dropout_backward, Pass::input_gradient, c_.rows, c_.hidden_width);
      k.options.dropout = true;
      k.parameter = c_.workload.hidden_dropout;
      k.site = branch.site;
      b.compute(k, {read(branch.sum_gradient), read(branch.mask), write(branch.dropped)});
    }
    b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, c_.rows, c_.hidden_width),
              {read(branch.dropped), gradient_of(c_, c_.layer, branch.bias)});
    if (c_.sequence_parallel) b.seam(Collective::Kind::all_gather, {read(branch.dropped), write(branch.whole)});
    return read(branch.whole);
  }

  /// Gradients of a column-parallel product; `dx` is the gradient of its input, with what came along the residual.
  void column_gradients(BlockBuilder& b, BlockBuilder& w, const Product& p, BufferId dy, BufferId x,
                        const Branch& branch, BufferId dx) {
    c_.sharding.input_gradient(c_, b, p, read(dy), branch.input_gradient);
    const BufferId sum = summed(b, branch.input_gradient, branch.input_part);
    c_.sharding.weight_gradient(c_, w, p, x, read(dy));
    b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, c_.tokens, p.out),
              {read(dy), gradient_of(c_, c_.layer, p.bias)});
    b.compute(c_.kernel(KernelKind::residual_forward, Pass::input_gradient, c_.rows, c_.hidden_width),
              {read(sum), read(branch.sum_gradient), write(dx)});
  }

  State& c_;
  std::unique_ptr<AttentionCore> core_;
  BufferId hidden_, gradient_;
  Branch attention_{}, ffn_{};
  BufferId qkv_{}, context_{}, mid_{}, pre_{}, act_{};
  BufferId gathered_{};
  BufferId act_gradient_{}, context_gradient_{}, qkv_gradient_{}, mid_gradient_{};
};

}  // namespace

void build_post_norm_layer(State& c) { PostNormLayer(c).build(); }

}  // namespace orrery::lowering
