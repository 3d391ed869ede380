#include "core/program/lower/adapters.hpp"
#include "core/program/lower/attention.hpp"
#include "core/program/lower/branch_end.hpp"
#include "core/program/lower/head_vectors.hpp"
#include "core/program/lower/latent_attention.hpp"
#include "core/program/lower/mixture_layer.hpp"
#include "core/program/lower/rotation.hpp"
#include "core/program/lower/shared_heads.hpp"
#include "core/program/lower/tensor_1d.hpp"

#include <algorithm>

namespace orrery::lowering {
namespace {

/// Declarations of layers' buffers and the compute order of the two blocks of each kind.
class Layer {
 public:
  explicit Layer(State& c) : c_(c), ends_(c), hidden_(c.hidden), gradient_(c.hidden_gradient) { declare(); }

  void build() {
    for (const LayerKind& kind : c_.kinds) {
      if (kind.prediction > 0) continue;
      kind_ = &kind;
      module_ = &(c_.*kind.module);
      mixes_ = kind.mixture;
      layer_ = kind.layers.front();
      build(kind);
    }
  }

 private:
  void build(const LayerKind& kind) {
    BlockBuilder forward(c_, kind.name + ".forward", Pass::forward, Section::model);
    // The stage's first layer takes what the embedding summed or the previous
    // stage sent; for all others these waits are over.
    if (c_.tensor > 1) forward.enter_after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
    if (c_.grid) forward.enter_after_tail(collective_lane(c_.program, c_.row_group));
    if (c_.pipeline > 1) forward.enter_after_tail(receive_lane(TransferLane::forward_receive));
    emit_forward(forward);
    c_.blocks(Phase::forward)[kind].plain = forward.finish(c_);
    BlockBuilder backward(c_, kind.name + ".backward", Pass::input_gradient, Section::model);
    if (c_.pipeline > 1) backward.enter_after_tail(receive_lane(TransferLane::backward_receive));
    if (c_.split_backward) {
      BlockBuilder weight(c_, kind.name + ".weight", Pass::weight_gradient, Section::model);
      emit_backward(backward, weight);
      c_.blocks(Phase::weight)[kind].plain = weight.finish(c_);
    } else {
      emit_backward(backward, backward);
    }
    c_.blocks(Phase::backward)[kind].plain = backward.finish(c_);
  }

  [[nodiscard]] bool drop_hidden() const { return c_.workload.hidden_dropout > 0; }
  [[nodiscard]] bool scales() const { return c_.model.residual_scale != 1.0; }
  [[nodiscard]] bool gated() const { return is_gated(c_.model.activation); }
  [[nodiscard]] bool parallel() const { return c_.model.parallel != ParallelBranches::none; }
  /// Whether the feed-forward part has a norm of its own in front; side by side, both branches may share one.
  [[nodiscard]] bool norms_before() const { return c_.model.branch_norms != BranchNorms::after; }
  [[nodiscard]] bool norms_ffn() const { return norms_before() && c_.model.parallel != ParallelBranches::one_norm; }
  [[nodiscard]] bool norms_behind() const { return c_.model.branch_norms != BranchNorms::before; }
  [[nodiscard]] bool normed_heads() const { return heads_ && HeadVectors::norms(c_.model, rotates(c_.model, layer_)); }
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
    norm1_out_ = norms_before() ? stream("norm1.out", Role::activation, c_.act, sp) : hidden_;
    if (norms_before()) norm1_stats_ = flat("norm1.stats", Role::statistic, c_.state, statistics);
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
    // A norm behind a branch, and weights of its features, need the branch's sum again.
    const Role summed_role = norms_behind() || m.layer_scale ? Role::activation : Role::workspace;
    attention_end_.out = stream("attention.out", sp ? Role::workspace : summed_role, c_.act, false);
    if (drop_hidden()) attention_end_.mask = stream("attention.out.mask", Role::activation, DType::u8, sp);
    if (!parallel()) mid_ = stream("mid", Role::activation, c_.act, sp);
    norm2_out_ = norms_ffn() ? stream("norm2.out", Role::activation, c_.act, sp) : parallel() ? norm1_out_ : mid_;
    if (norms_ffn()) norm2_stats_ = flat("norm2.stats", Role::statistic, c_.state, statistics);
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
    if (!parallel()) ffn_end_.out = stream("ffn.out", sp ? Role::workspace : summed_role, c_.act, false);
    if (drop_hidden() && !parallel()) ffn_end_.mask = stream("ffn.out.mask", Role::activation, DType::u8, sp);
    if (sp) {
      gathered_ = stream("gathered", Role::workspace, c_.act, false);
      gathered_gradient_ = stream("gathered.gradient", Role::workspace, c_.act, false);
      attention_end_.whole = split() || has_mixtures()
                                 ? stream("attention.gathered.gradient", Role::workspace, c_.act, false)
                                 : gathered_gradient_;
      attention_end_.part = stream("attention.part", summed_role, c_.act, true);
      if (!parallel()) ffn_end_.part = stream("ffn.part", summed_role, c_.act, true);
      input_part_ = stream("input.gradient.part", Role::workspace, c_.act, true);
    }
    const bool recomputes = std::find(c_.recomputes.begin(), c_.recomputes.end(), true) != c_.recomputes.end();
    if (c_.plan.recompute == Recompute::full && recomputes)
      c_.recomputed = stream("recomputed", Role::workspace, c_.act, sp);
    if (drop_hidden() || scales()) {
      ffn_end_.dropped = stream("branch.gradient", Role::workspace, c_.act, sp);
      attention_end_.dropped =
          split() && !parallel() ? stream("attention.branch.gradient", Role::workspace, c_.act, sp) : ffn_end_.dropped;
    }
    if (split() && (!parallel() || norms_ffn())) mid_gradient_ = stream("mid.gradient", Role::workspace, c_.act, sp);
    if (has_dense()) ffn_act_gradient_ = flat("ffn.act.gradient", Role::workspace, c_.act, c_.tokens * c_.ffn);
    if (gated() && has_dense())
      ffn_pre_gradient_ = flat("ffn.pre.gradient", Role::workspace, c_.act, c_.tokens * up_width());
    context_gradient_ = flat("context.gradient", Role::workspace, c_.act, c_.tokens * c_.context_width);
    qkv_gradient_ = flat("qkv.gradient", Role::workspace, c_.act, c_.tokens * c_.qkv_width);
    // Rotations are turned back by positions, which the cut tells; and shared heads need to know whose they are.
    if (c_.context > 1 || m.latent || c_.shares_kv_heads)
      c_.program.buffers[index(qkv_gradient_)].shard = c_.program[qkv_].shard;
    if (norms_behind()) {
      const auto behind = [&](BranchEnd& end, const std::string& name, const char* weight, const char* bias) {
        end.norm = NormSite{nullptr, weight, bias, name == "ffn" ? "ffn.out_norm" : "attention.out_norm"};
        end.normed = stream((name + ".normed").c_str(), Role::workspace, c_.act, sp);
        end.stats = flat((name + ".out_norm.stats").c_str(), Role::statistic, c_.state, statistics);
        end.normed_gradient = stream((name + ".normed.gradient").c_str(), Role::workspace, c_.act, sp);
      };
      behind(attention_end_, "attention", "attention.out_norm.weight", "attention.out_norm.bias");
      behind(ffn_end_, "ffn", "ffn.out_norm.weight", "ffn.out_norm.bias");
    }
    if (m.layer_scale) {
      const auto scaled = [&](BranchEnd& end, const std::string& name, const char* gamma) {
        end.gamma = gamma;
        end.normed = stream((name + ".scaled").c_str(), Role::workspace, c_.act, sp);
        end.normed_gradient = stream((name + ".scaled.gradient").c_str(), Role::workspace, c_.act, sp);
      };
      scaled(attention_end_, "attention", "attention.scale.weight");
      scaled(ffn_end_, "ffn", "ffn.scale.weight");
    }
    attention_end_.site = 2;
    ffn_end_.site = 3;
    ffn_end_.whole = gathered_gradient_;
    if (SharedHeads::needed(c_)) shared_ = std::make_unique<SharedHeads>(c_);
    if (HeadVectors::needed(m)) heads_ = std::make_unique<HeadVectors>(c_, qkv_, qkv_gradient_);
    if (m.latent) latent_ = std::make_unique<LatentProjections>(c_, norm1_out_, qkv_, qkv_gradient_);
    input_gradient_ = stream("input.gradient", Role::workspace, c_.act, false);
    products_ = std::make_unique<AdaptedProducts>(c_);
    if (c_.grid) {
      // A grid makes a weight's gradient as parts in workspaces; these shards say whose tokens it is from.
      const auto tell = [&](BufferId buffer, const ShardDim& columns) {
        c_.program.buffers[index(buffer)].shard = Shard{position, sequence, columns};
      };
      const AxisList& wide = c_.layout.wide_features;
      if (has_dense()) tell(ffn_act_gradient_, {m.ffn, m.ffn, wide, false});
      if (gated() && has_dense()) tell(ffn_pre_gradient_, {2 * m.ffn, 2 * m.ffn, wide, false});
      tell(context_gradient_, {query, query, wide, false});
      if (!m.latent) tell(qkv_gradient_, {m.kv_heads * group_width, m.kv_heads * group_width, wide, false});
    }
  }

  [[nodiscard]] std::uint64_t up_width() const { return gated() ? 2 * c_.ffn : c_.ffn; }

  // --- forward -----------------------------------------------------------

  void emit_forward(BlockBuilder& b) {
    set_norms();
    if (norms_before()) norm_forward(b, norm1(), hidden_, norm1_out_, norm1_stats_);
    BufferId x1 = norm1_out_;
    if (!latent_ || latent_->widens_stream()) x1 = gathered(b, norm1_out_, gathered_);
    if (latent_) {
      latent_->forward(b, *module_, x1);
    } else {
      make_heads(b, x1);
    }
    attention_->forward(b, attention_operands());
    products_->forward(b, out(), context_, attention_end_.out);
    if (parallel()) {
      if (norms_ffn()) norm_forward(b, norm2(), hidden_, norm2_out_, norm2_stats_);
      dense_forward(b, norms_ffn() ? gathered(b, norm2_out_, gathered_) : x1, attention_end_.out);
      ends_.close(b, *module_, attention_end_, {{out_bias(), down_bias()}}, read(hidden_), write(hidden_, 1));
      return;
    }
    ends_.close(b, *module_, attention_end_, {{out_bias()}}, read(hidden_), write(mid_));
    if (norms_ffn()) norm_forward(b, norm2(), mid_, norm2_out_, norm2_stats_);
    branch_forward(b);
    ends_.close(b, *module_, ffn_end(), {{down_bias()}}, read(mid_), write(hidden_, 1));
  }

  /// A norm in front of a branch.
  void norm_forward(BlockBuilder& b, const NormSite& norm, BufferId x, BufferId y, BufferId stats) {
    const BlockBuilder::Part part(b, RecomputeModule::layernorm);
    c_.sharding.norm_forward(c_, b, norm, read(x), write(y), write(stats));
  }

  /// The feed-forward branch up to its sum over tensor ranks.
  void branch_forward(BlockBuilder& b) {
    const BlockBuilder::Part part(b, mixes_ ? RecomputeModule::moe : RecomputeModule::mlp);
    if (mixes_ && c_.grid) {
      gather_features(c_, b, Pass::forward, read(norm2_out_), mixture_in_);
      mixture_->forward(b, mixture_in_.rows, mixture_out_.rows);
      sum_features(c_, b, Pass::forward, mixture_out_, ffn_end_.out);
    } else if (mixes_) {
      const BufferId x = mixture_->takes_whole_input() ? gathered(b, norm2_out_, mixture_gathered_) : norm2_out_;
      mixture_->forward(b, x, mixture_->routes_own() ? ffn_end_.part : ffn_end_.out);
    } else {
      dense_forward(b, gathered(b, norm2_out_, gathered_), ffn_end_.out);
    }
  }

  /// Packed queries, keys and values of x.
  void make_heads(BlockBuilder& b, BufferId x) {
    const BufferId y = heads_ ? heads_->product(normed_heads()) : qkv_;
    products_->forward(b, qkv(), x, shared_ ? shared_->product() : y);
    if (shared_) shared_->forward(b, y);
    if (heads_) heads_->forward(b, *module_, normed_heads());
    if (rotates(c_.model, layer_)) {
      b.compute(rope_kernel(c_, layer_, KernelKind::rope_forward, Pass::forward), {update(qkv_)});
    }
  }

  /// The dense feed-forward part; side by side, its result is added to attention's.
  void dense_forward(BlockBuilder& b, BufferId x, BufferId y) {
    products_->forward(b, up(), x, ffn_pre_);
    b.compute(activation_kernel(c_, Pass::forward, c_.tokens, c_.ffn), {read(ffn_pre_), write(ffn_act_)});
    products_->forward(b, down(), ffn_act_, y);
  }

  [[nodiscard]] Product qkv() const {
    return {module_,         "attention.qkv.weight", c_.model.biases.qkv ? "attention.qkv.bias" : nullptr,
            c_.hidden_width, c_.projected,           true};
  }
  [[nodiscard]] Product out() const {
    return {module_, "attention.out.weight", nullptr, c_.context_width, c_.hidden_width, false};
  }
  [[nodiscard]] Product up() const {
    return {module_, "ffn.up.weight", c_.model.biases.ffn ? "ffn.up.bias" : nullptr, c_.hidden_width, up_width(), true};
  }
  [[nodiscard]] Product down() const {
    Product p{module_, "ffn.down.weight", nullptr, c_.ffn, c_.hidden_width, false};
    p.adds = parallel();
    return p;
  }
  [[nodiscard]] const char* out_bias() const { return c_.model.biases.out ? "attention.out.bias" : nullptr; }
  [[nodiscard]] const char* down_bias() const { return c_.model.biases.ffn && !mixes_ ? "ffn.down.bias" : nullptr; }
  [[nodiscard]] NormSite norm1() const { return {module_, "norm1.weight", "norm1.bias", "norm1"}; }
  [[nodiscard]] NormSite norm2() const { return {module_, "norm2.weight", "norm2.bias", "norm2"}; }
  /// Norms behind branches have their weights in the module of the kind that is built.
  void set_norms() {
    for (BranchEnd* end : {&attention_end_, &ffn_end_}) {
      if (end->norm) end->norm->module = module_;
    }
  }

  /// The whole of a tensor that sequence parallelism keeps cut by positions.
  BufferId gathered(BlockBuilder& b, BufferId part, BufferId whole) {
    if (!c_.sequence_parallel) return part;
    b.seam(Collective::Kind::all_gather, {read(part), write(whole)});
    return whole;
  }

  /// The same for the weight gradient of a product that takes it, where there is one.
  BufferId gathered_again(BlockBuilder& w, const Product& p, BufferId part) {
    return products_->takes_input_again(p) ? gathered(w, part, gathered_) : part;
  }

  [[nodiscard]] AttentionOperands attention_operands() const {
    return {qkv_, context_, context_gradient_, qkv_gradient_, kind_};
  }

  // --- backward ----------------------------------------------------------

  [[nodiscard]] bool split() const { return c_.split_backward; }
  /// The end of the branch that is built; a mixture's may leave nothing to sum.
  [[nodiscard]] BranchEnd ffn_end() const {
    BranchEnd end = ffn_end_;
    end.summed = mixes_ && mixture_->routes_own();
    end.module = mixes_ ? RecomputeModule::moe : RecomputeModule::mlp;
    return end;
  }

  /// `w` takes the weight gradients of products: it is `b` again, or the block that runs later.
  void emit_backward(BlockBuilder& b, BlockBuilder& w) {
    set_norms();
    if (parallel()) return parallel_backward(b, w);
    // Feed-forward branch.
    const Operand dy2 = ends_.open(b, *module_, ffn_end(), {{down_bias()}}, read(gradient_, split() ? 1 : 0));
    if (mixes_) {
      mixture_backward(b, w, dy2);
    } else {
      dense_backward(b, w, dy2);
    }
    attention_backward(b, w);
  }

  void dense_backward(BlockBuilder& b, BlockBuilder& w, Operand dy2) {
    const BufferId x2 = gathered_again(w, up(), norm2_out_);
    products_->input_gradient(b, down_alone(), dy2, ffn_act_gradient_);
    products_->weight_gradient(w, down(), ffn_act_, dy2);
    column_gradients(b, w, up(), activation_backward(b), x2);
    stream_gradients(b, norms_ffn(), norm2(), column_sum_, mid_, norm2_stats_, read(gradient_, 1), mid_gradient_);
  }

  /// The product whose input gradient adds to nothing.
  [[nodiscard]] Product down_alone() const {
    Product p = down();
    p.adds = false;
    return p;
  }

  /// Goes from the gradient behind the activation to that before it.
  BufferId activation_backward(BlockBuilder& b) {
    const Kernel k = activation_kernel(c_, Pass::input_gradient, c_.tokens, c_.ffn);
    if (!gated()) {
      b.compute(k, {read(ffn_pre_), update(ffn_act_gradient_)});
      return ffn_act_gradient_;
    }
    b.compute(k, {read(ffn_pre_), read(ffn_act_gradient_), write(ffn_pre_gradient_)});
    return ffn_pre_gradient_;
  }

  /// Both branches take the gradient before anything is added to it. With one norm for both, their input gradients are
  /// one sum.
  void parallel_backward(BlockBuilder& b, BlockBuilder& w) {
    const Operand dy =
        ends_.open(b, *module_, attention_end_, {{out_bias(), down_bias()}}, read(gradient_, split() ? 1 : 0));
    const bool two = norms_ffn();
    const BufferId x2 = gathered_again(w, !two && products_->takes_input_again(qkv()) ? qkv() : up(), norm2_out_);
    products_->input_gradient(b, down_alone(), dy, ffn_act_gradient_);
    products_->weight_gradient(w, down(), ffn_act_, dy);
    products_->input_gradient(b, out(), dy, context_gradient_);
    products_->weight_gradient(w, out(), context_, dy);
    const BufferId dpre = activation_backward(b);
    products_->input_gradient(b, up(), read(dpre), input_gradient_);
    if (two) column_sum_ = ends_.summed(b, input_gradient_, input_part_);
    product_gradients(b, w, up(), dpre, x2);
    if (two) {
      stream_gradients(b, true, norm2(), column_sum_, hidden_, norm2_stats_, read(gradient_, 1), mid_gradient_);
    }
    const BufferId x1 = two ? gathered_again(w, qkv(), norm1_out_) : x2;
    attention_->backward(b, attention_operands());
    Product p = qkv();
    p.adds = !two;
    column_gradients(b, w, p, heads_backward(b), x1);
    stream_gradients(b, true, norm1(), column_sum_, hidden_, norm1_stats_,
                     two ? read(mid_gradient_) : read(gradient_, 1), gradient_);
  }

  void mixture_backward(BlockBuilder& b, BlockBuilder& w, Operand dy2) {
    BufferId dx = mixture_input_gradient_;
    if (c_.grid) {
      if (c_.pipeline > 1 && dy2.buffer == gradient_) b.after_tail(receive_lane(TransferLane::backward_receive));
      gather_features(c_, b, Pass::input_gradient, dy2, mixture_out_gradient_);
      if (mixture_->takes_input_again()) gather_features(c_, w, Pass::weight_gradient, read(norm2_out_), mixture_in_);
      const Operand dy = read(mixture_out_gradient_.rows);
      mixture_->backward(b, w, dy, dy, mixture_in_.rows, mixture_in_gradient_.rows);
      sum_features(c_, b, Pass::input_gradient, mixture_in_gradient_, dx);
    } else {
      const BufferId x2 = mixture_->takes_input_again() ? gathered(w, norm2_out_, mixture_gathered_) : norm2_out_;
      const bool own = mixture_->routes_own();
      Operand whole = dy2;
      if (own && mixture_->takes_input_again()) {
        whole = ends_.gathered(b, ffn_end_, dy2);
        // The gather waits for what the next stage sent, and the next op does not wait for the gather.
        if (c_.pipeline > 1 && dy2.buffer == gradient_) b.after_tail(receive_lane(TransferLane::backward_receive));
      }
      if (own) dx = input_part_;
      mixture_->backward(b, w, dy2, whole, x2, dx);
      if (!own) dx = ends_.summed(b, dx, input_part_);
    }
    mixture_->router_gradients(b, w);
    mixture_->router_backward(b, w, dx);
    stream_gradients(b, norms_ffn(), norm2(), dx, mid_, norm2_stats_, read(gradient_, 1), mid_gradient_);
  }

  void attention_backward(BlockBuilder& b, BlockBuilder& w) {
    const Operand dy1 =
        ends_.open(b, *module_, attention_end_, {{out_bias()}}, read(split() ? mid_gradient_ : gradient_));
    BufferId x1 = norm1_out_;
    if (!latent_) {
      x1 = gathered_again(w, qkv(), norm1_out_);
    } else if (latent_->widens_stream()) {
      x1 = gathered(w, norm1_out_, gathered_);
    }
    products_->input_gradient(b, out(), dy1, context_gradient_);
    products_->weight_gradient(w, out(), context_, dy1);
    attention_->backward(b, attention_operands());
    if (latent_) {
      latent_->backward(b, w, *module_, x1);
      column_sum_ = latent_->input_gradient();
    } else {
      column_gradients(b, w, qkv(), heads_backward(b), x1);
    }
    stream_gradients(b, norms_before(), norm1(), column_sum_, hidden_, norm1_stats_, read(mid_gradient_), gradient_);
  }

  /// Goes from the gradient of queries, keys and values to that of their product.
  BufferId heads_backward(BlockBuilder& b) {
    if (rotates(c_.model, layer_)) {
      b.compute(rope_kernel(c_, layer_, KernelKind::rope_backward, Pass::input_gradient), {update(qkv_gradient_)});
    }
    const BufferId d = heads_ ? heads_->backward(b, *module_, normed_heads()) : qkv_gradient_;
    return shared_ ? shared_->backward(b, d) : d;
  }

  /// Gradients of a column-parallel product.  The input gradient's sum, column_sum_, runs beside the weight gradient,
  /// unless that runs later.
  void column_gradients(BlockBuilder& b, BlockBuilder& w, const Product& p, BufferId dy, BufferId x) {
    products_->input_gradient(b, p, read(dy), input_gradient_);
    column_sum_ = ends_.summed(b, input_gradient_, input_part_);
    product_gradients(b, w, p, dy, x);
  }

  void product_gradients(BlockBuilder& b, BlockBuilder& w, const Product& p, BufferId dy, BufferId x) {
    products_->weight_gradient(w, p, x, read(dy));
    if (p.bias == nullptr || !c_.trains_weights()) return;
    b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, c_.tokens, p.out),
              {read(dy), gradient_of(c_, *p.module, p.bias)});
  }

  /// Adds a branch's input gradient to the stream's, through the norm before the branch where there is one. Where
  /// backward is split, the sum with `residual` is `out`.
  void stream_gradients(BlockBuilder& b, bool normed, const NormSite& norm, BufferId dx, BufferId norm_in,
                        BufferId stats, Operand residual, BufferId out) {
    if (!normed) {
      b.compute(c_.kernel(KernelKind::residual_forward, Pass::input_gradient, c_.rows, c_.hidden_width),
                {read(dx), split() ? residual : read(gradient_), write(split() ? out : gradient_)});
    } else if (split()) {
      c_.sharding.norm_backward(c_, b, norm, read(dx), read(norm_in), read(stats), write(out), residual);
    } else {
      c_.sharding.norm_backward(c_, b, norm, read(dx), read(norm_in), read(stats), update(gradient_), std::nullopt);
    }
  }

  State& c_;
  BranchEnds ends_;
  // The kind of layer that is being built, and its module; kinds share all buffers except those of their feed-forward
  // parts.
  const LayerKind* kind_ = nullptr;
  const Module* module_ = nullptr;
  bool mixes_ = false;       ///< a mixture in place of the dense feed-forward part
  std::uint32_t layer_ = 0;  ///< one of the kind
  std::unique_ptr<AttentionCore> attention_;
  std::unique_ptr<AdaptedProducts> products_;  ///< of the dense parts
  std::unique_ptr<MixtureLayer> mixture_;
  std::unique_ptr<HeadVectors> heads_;
  std::unique_ptr<SharedHeads> shared_;
  std::unique_ptr<LatentProjections> latent_;  ///< in place of the product that makes queries, keys and values
  BufferId hidden_, gradient_;
  BranchEnd attention_end_, ffn_end_;  ///< side by side, branches end in the first
  BufferId norm1_out_{}, norm1_stats_{}, qkv_{}, context_{}, mid_{}, norm2_out_{}, norm2_stats_{}, ffn_pre_{},
      ffn_act_{};
  BufferId gathered_{}, gathered_gradient_{}, input_part_{}, ffn_act_gradient_{}, ffn_pre_gradient_{},
      context_gradient_{}, qkv_gradient_{}, input_gradient_{}, column_sum_{};
  BufferId mixture_gathered_{}, mixture_input_gradient_{};
  AllFeatures mixture_in_, mixture_out_, mixture_out_gradient_, mixture_in_gradient_;  ///< on a grid
  BufferId mid_gradient_{};  ///< between the branches, where backward is split
};

}  // namespace

void build_layer(State& c) {
  if (c.model.architecture == Architecture::bert) return build_post_norm_layer(c);
  Layer(c).build();
}

}  // namespace orrery::lowering
