#include <fmt/format.h>

#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {
namespace {

/// The model's head, or the heads of its prediction modules, which share the matrix with it and have norms of their
/// own.
///
/// With loss chunks the forward block ends at the norm, whose output is kept. The backward block makes the logits of a
/// piece of positions, their loss and gradient, and from it both gradients of the product; then the next piece takes
/// over their memory. Nothing is made twice, because nobody waits for the loss before the backward pass.
class Head {
 public:
  Head(State& c, bool behind_predictions)
      : c_(c),
        m_(c.model),
        further_(behind_predictions),
        bert_(m_.architecture == Architecture::bert),
        vit_(m_.architecture == Architecture::vit),
        sp_(c.sequence_parallel),
        scope_(further_ ? Scope::layer_microbatch : Scope::microbatch),
        matrix_(head_matrix(c)),
        pool_(vit_ ? m_.image->pool : Image::Pool::class_token),
        // An image's class is predicted from its class token, the first of its rows, or from the mean of its patches.
        asked_(vit_ ? c.sequences : c.tokens),
        pieces_(c.plan.loss_chunks),
        rows_(asked_ / pieces_) {
    declare();
  }

  [[nodiscard]] BlockId forward(std::uint32_t prediction) {
    BlockBuilder f(c_, name(prediction) + ".forward", Pass::forward, Section::model);
    if (c_.bare_head && !further_) f.enter_after_tail(receive_lane(TransferLane::forward_receive));
    if (bert_) head_transform_forward(c_, f, transform_);
    c_.sharding.norm_forward(c_, f, norm(), read(norm_in_), write(norm_out_), write(stats_));
    if (pieces_ > 1) return f.finish(c_);  // the backward block has all that logits are needed for
    gather(f);
    if (mean())
      f.compute(mean_rows(KernelKind::mean_rows_forward, Pass::forward), {patches(View::Use::read), write(mean_)});
    make_logits(f, 0);
    load_targets(f, prediction);
    take_loss(f, prediction, 0);
    return f.finish(c_);
  }

  [[nodiscard]] BlockId backward(std::uint32_t prediction) {
    BlockBuilder b(c_, name(prediction) + ".backward", Pass::input_gradient, Section::model);
    // The count was summed at the start of the step.
    if (c_.is_several(c_.batch_group)) b.enter_after_tail(collective_lane(c_.program, c_.batch_group));
    if (pieces_ > 1) {
      load_targets(b, prediction);
    } else {
      turn_into_gradient(b, prediction, 0);
    }
    if (rows() && (pieces_ > 1 || c_.trains_weights())) gather(b);
    const std::uint64_t made = asked_ * c_.hidden_width, all = c_.tokens * c_.hidden_width;
    if (made < all && !mean()) {
      b.compute(c_.kernel(KernelKind::fill, Pass::input_gradient, c_.tokens - asked_, c_.hidden_width),
                {Operand{dx_, View::Use::write, 0, made, all - made, {}}});
    }
    for (std::uint64_t piece = 0; piece < pieces_; ++piece) {
      if (pieces_ > 1) {
        make_logits(b, piece);
        take_loss(b, prediction, piece);
        turn_into_gradient(b, prediction, piece);
      }
      input_gradient(b, piece);
      if (piece + 1 == pieces_) sum_input_gradient(b);
      if (c_.trains_weights()) weight_gradient(b, piece);
    }
    if (mean() && !sp_) spread_mean(b);
    // A prediction module above has begun the gradient.
    if (prediction == c_.predictions) {
      b.compute(c_.kernel(KernelKind::fill, Pass::input_gradient, c_.rows, c_.hidden_width),
                {write(norm_in_gradient_)});
    }
    c_.sharding.norm_backward(c_, b, norm(), read(dx_part_), read(norm_in_), read(stats_), update(norm_in_gradient_),
                              std::nullopt);
    if (bert_) head_transform_backward(c_, b, transform_);
    return b.finish(c_);
  }

 private:
  // What a pass is made of. Logits, and what their rows sum to, are of one piece.

  void gather(BlockBuilder& b) {
    if (sp_) b.seam(Collective::Kind::all_gather, {read(norm_out_), write(gathered_)});
  }

  void load_targets(BlockBuilder& b, std::uint32_t prediction) {
    Kernel load = c_.kernel(KernelKind::load_targets, Pass::loss, asked_, 1);
    load.site = static_cast<std::uint8_t>(prediction);
    b.compute(load, {write(targets_)});
  }

  /// Whether the head sees rows of the stream, and whether it sees their mean.
  [[nodiscard]] bool rows() const { return pool_ != Image::Pool::mean; }
  [[nodiscard]] bool mean() const { return pool_ != Image::Pool::class_token; }
  [[nodiscard]] Kernel mean_rows(KernelKind kind, Pass pass) const {
    return c_.kernel(kind, pass, asked_, c_.hidden_width, patch_count(*m_.image));
  }
  /// The patches' rows, behind those of the class tokens where there are some.
  [[nodiscard]] Operand patches(View::Use use) const {
    const std::uint64_t all = patch_count(*m_.image) * asked_ * c_.hidden_width;
    return {use == View::Use::read ? gathered_ : dx_, use, 0, c_.tokens * c_.hidden_width - all, all, {}};
  }
  void spread_mean(BlockBuilder& b) {
    b.compute(mean_rows(KernelKind::mean_rows_backward, Pass::input_gradient),
              {read(mean_gradient_), patches(View::Use::write)});
  }

  void make_logits(BlockBuilder& b, std::uint64_t piece) {
    if (own_product()) {
      Kernel k = c_.kernel(KernelKind::gemm, Pass::forward, rows_, c_.vocabulary, c_.hidden_width);
      k.options.transpose_b = k.options.bias = true;
      const Operand x = rows() ? rows_of(gathered_, View::Use::read, piece) : read(mean_);
      b.compute(
          k, {x, weight_of(c_, *matrix_.module, matrix_.slice), write(logits_), weight_of(c_, c_.head, "output.bias")});
      if (rows() && mean()) {
        k.options.bias = false;
        b.compute(k, {read(mean_), weight_of(c_, c_.head, mean_slice()), update(logits_)});
      }
      return;
    }
    if (rows()) c_.sharding.forward(c_, b, product(piece), gathered_, logits_);
    if (mean()) {
      Product p = mean_product();
      p.adds = rows();
      c_.sharding.forward(c_, b, p, mean_, logits_);
    }
    if (!bias()) return;
    b.compute(c_.kernel(KernelKind::bias_forward, Pass::forward, rows_, c_.vocabulary),
              {weight_of(c_, c_.head, "output.bias"), update(logits_)});
  }

  void take_loss(BlockBuilder& b, std::uint32_t prediction, std::uint64_t piece) {
    if (m_.logit_scale != 1.0 || m_.logit_softcap > 0.0) {
      b.compute(capped(entropy(KernelKind::scale_logits)), {update(logits_)});
    }
    b.compute(entropy(KernelKind::cross_entropy_max), {read(logits_), write(max_)});
    const bool cut_vocabulary = group_size(c_.program[c_.vocabulary_group], c_.plan.mesh) > 1;
    if (cut_vocabulary) {
      b.seam(Collective::Kind::all_reduce, c_.vocabulary_group, {update(max_)}, Collective::Reduction::max);
    }
    b.compute(entropy(KernelKind::cross_entropy_sum),
              {read(logits_), read(max_), targets(piece), write(sum_), write(target_logit_)});
    if (cut_vocabulary) {
      b.seam(Collective::Kind::all_reduce, c_.vocabulary_group, {update(sum_), update(target_logit_)});
    }
    b.compute(entropy(KernelKind::cross_entropy_loss),
              {read(max_), read(sum_), read(target_logit_), targets(piece),
               of(prediction, c_.scalar.loss, c_.scalar.prediction_loss, View::Use::accumulate)});
  }

  void turn_into_gradient(BlockBuilder& b, std::uint32_t prediction, std::uint64_t piece) {
    Kernel ce = capped(entropy(KernelKind::cross_entropy_backward));
    if (prediction > 0) ce.parameter = prediction_weight(m_, c_.workload);
    const Operand count = of(prediction, c_.scalar.count, c_.scalar.prediction_count, View::Use::read);
    OperandArray operands{update(logits_), read(max_), read(sum_), targets(piece), count};
    if (c_.scaled) {
      ce.options.scaled = true;
      operands.add(read(c_.scalar.loss_scale));
    }
    b.compute(ce, operands);
  }

  void input_gradient(BlockBuilder& b, std::uint64_t piece) {
    if (!own_product()) {
      if (rows()) c_.sharding.input_gradient(c_, b, product(piece), read(logits_), dx_);
      if (mean()) c_.sharding.input_gradient(c_, b, mean_product(), read(logits_), mean_gradient_);
      return;
    }
    const Kernel k = c_.kernel(KernelKind::gemm, Pass::input_gradient, rows_, c_.hidden_width, c_.vocabulary);
    if (rows()) {
      b.compute(k,
                {read(logits_), weight_of(c_, *matrix_.module, matrix_.slice), rows_of(dx_, View::Use::write, piece)});
    }
    if (mean()) b.compute(k, {read(logits_), weight_of(c_, c_.head, mean_slice()), write(mean_gradient_)});
  }

  void sum_input_gradient(BlockBuilder& b) {
    if (sp_) {
      if (mean()) spread_mean(b);
      b.seam(Collective::Kind::reduce_scatter, {read(dx_), write(dx_part_)});
      return;
    }
    if (c_.tensor == 1) return;
    if (rows()) {
      b.seam(Collective::Kind::all_reduce, {Operand{dx_, View::Use::accumulate, 0, 0, asked_ * c_.hidden_width, {}}});
    }
    if (mean()) b.seam(Collective::Kind::all_reduce, {update(mean_gradient_)});
  }

  void weight_gradient(BlockBuilder& b, std::uint64_t piece) {
    if (own_product()) {
      Kernel k = c_.kernel(KernelKind::gemm, Pass::weight_gradient, c_.vocabulary, c_.hidden_width, rows_);
      k.options.transpose_a = true;
      if (rows()) {
        b.compute(k, {read(logits_), rows_of(gathered_, View::Use::read, piece),
                      gradient_of(c_, *matrix_.module, matrix_.slice)});
      }
      if (mean()) b.compute(k, {read(logits_), read(mean_), gradient_of(c_, c_.head, mean_slice())});
    } else {
      if (rows()) c_.sharding.weight_gradient(c_, b, product(piece), gathered_, read(logits_));
      if (mean()) c_.sharding.weight_gradient(c_, b, mean_product(), mean_, read(logits_));
    }
    if (!bias()) return;
    b.compute(c_.kernel(KernelKind::bias_backward, Pass::weight_gradient, rows_, c_.vocabulary),
              {read(logits_), gradient_of(c_, c_.head, "output.bias")});
  }

  void declare() {
    const ShardDim feature{m_.hidden, m_.hidden, c_.layout.stream_features, false};
    const std::string prefix = further_ ? "prediction." : "";
    const auto flat = [&](const char* name, Role role, DType dtype, std::uint64_t count) {
      return flat_buffer(c_, prefix + name, role, scope_, dtype, count);
    };
    const auto stream_buffer = [&](const char* name, Role role, bool sharded) {
      return c_.activation(prefix + name, role, scope_, c_.act, feature, sharded);
    };
    // Logits are wide, and targets are those of their rows.
    const auto wide_buffer = [&](const char* name, Role role, DType dtype, const ShardDim& columns) {
      const BufferId id = c_.activation(prefix + name, role, scope_, dtype, columns, false);
      Buffer& b = c_.program.buffers[index(id)];
      b.shard->dims[1] = wide_sequences(c_);
      if (vit_) {
        b.shard->dims[0] = {1, 1, {}, false};
        b.count = local_count(*b.shard, c_.program.mesh, c_.program.microbatches);
      }
      return id;
    };
    targets_ = wide_buffer("targets", Role::data, DType::i32, {1, 1, {}, false});
    norm_out_ = stream_buffer("head.norm.out", Role::activation, sp_);
    stats_ = flat("head.norm.stats", Role::statistic, c_.state, c_.rows * (m_.norm == Norm::layer_norm ? 2 : 1));
    gathered_ = sp_ ? stream_buffer("head.gathered", Role::workspace, false) : norm_out_;
    const std::uint64_t padded = padded_vocabulary(c_.plan, m_);
    logits_ =
        wide_buffer("logits", Role::activation, c_.logits, {padded, m_.vocabulary, c_.layout.wide_features, false});
    if (pieces_ > 1) {
      // The pieces of all ranks are as many positions of as many sequences, in no order that matters.
      Buffer& b = c_.program.buffers[index(logits_)];
      ShardDim& positions = b.shard->dims[0];
      positions.extent = positions.valid = positions.extent / pieces_;
      positions.zigzag = 0;
      b.count = local_count(*b.shard, c_.program.mesh, c_.program.microbatches);
      b.role = Role::workspace;
    }
    const Role kept = pieces_ > 1 ? Role::workspace : Role::statistic;
    max_ = flat("logits.max", kept, c_.state, rows_);
    sum_ = flat("logits.sum", kept, c_.state, rows_);
    target_logit_ = flat("logits.target", Role::workspace, c_.state, rows_);
    dx_ = stream_buffer("head.gradient", Role::workspace, false);
    if (mean()) {
      const auto of_images = [&](const char* name, Role role) {
        const BufferId id = stream_buffer(name, role, false);
        Buffer& b = c_.program.buffers[index(id)];
        b.shard->dims[0] = {1, 1, {}, false};
        b.count = local_count(*b.shard, c_.program.mesh, c_.program.microbatches);
        return id;
      };
      mean_ = of_images("head.mean", Role::activation);
      mean_gradient_ = of_images("head.mean.gradient", Role::workspace);
    }
    dx_part_ = sp_ ? stream_buffer("head.gradient.part", Role::workspace, true) : dx_;
    if (bert_) transform_ = declare_head_transform(c_);
    norm_in_ = bert_ ? transform_.act : c_.hidden;
    norm_in_gradient_ = bert_ ? transform_.act_gradient : c_.hidden_gradient;
  }

  static std::string name(std::uint32_t prediction) {
    return prediction == 0 ? "head" : fmt::format("prediction{}.head", prediction);
  }
  /// The model's scalar, or the one of a prediction module.
  static Operand of(std::uint32_t prediction, BufferId models, BufferId modules, View::Use use) {
    return prediction == 0 ? Operand{models, use, 0, 0, 0, {}} : Operand{modules, use, 0, prediction - 1, 1, {}};
  }
  /// A bias for each word or class.
  [[nodiscard]] bool bias() const { return has_head_bias(m_); }
  /// 1D adds the bias in the product; a grid makes the product in parts, so its bias comes after the sum.
  [[nodiscard]] bool own_product() const { return bias() && !c_.grid; }
  /// A piece's rows of a buffer that has all of them.
  [[nodiscard]] Operand rows_of(BufferId b, View::Use use, std::uint64_t piece) const {
    return {b, use, 0, piece * rows_ * c_.hidden_width, rows_ * c_.hidden_width, {}};
  }
  [[nodiscard]] Operand targets(std::uint64_t piece) const {
    return {targets_, View::Use::read, 0, piece * rows_, rows_, {}};
  }
  [[nodiscard]] NormSite norm() const {
    if (!further_) return {&c_.head, "norm.weight", "norm.bias", "head.norm", Scope::microbatch};
    // The head stands behind two layers' numbers: the one that has its norm, and the transformer layer.
    return {&c_.prediction, "output_norm.weight", "output_norm.bias", "prediction.head.norm", scope_, -2};
  }
  [[nodiscard]] Product product(std::uint64_t piece) const {
    Product p{matrix_.module, matrix_.slice, nullptr, c_.hidden_width, c_.vocabulary, true, true, scope_};
    if (vit_ || pieces_ > 1) p.rows = rows_, p.first = piece * rows_;
    return p;
  }
  /// The matrix that meets the mean: one of its own where the head sees the class token too.
  [[nodiscard]] const char* mean_slice() const { return rows() ? "output.mean.weight" : "output.weight"; }
  [[nodiscard]] Product mean_product() const {
    Product p{&c_.head, mean_slice(), nullptr, c_.hidden_width, c_.vocabulary, true, true, scope_};
    p.rows = rows_;
    return p;
  }
  [[nodiscard]] Kernel entropy(KernelKind kind) const { return c_.kernel(kind, Pass::loss, rows_, c_.vocabulary); }

  /// With the scale and the bound of logits.
  [[nodiscard]] Kernel capped(Kernel k) const {
    if (m_.logit_scale != 1.0) k.scale = m_.logit_scale;
    k.softcap = m_.logit_softcap;
    return k;
  }

  State& c_;
  const ModelSpec& m_;
  bool further_, bert_, vit_, sp_;
  Scope scope_;
  HeadMatrix matrix_;
  Image::Pool pool_;
  std::uint64_t asked_;   ///< rows whose target is asked for
  std::uint64_t pieces_;  ///< in which logits are made, one after the other
  std::uint64_t rows_;    ///< of a piece
  HeadTransform transform_;
  BufferId targets_{}, norm_in_{}, norm_out_{}, stats_{}, gathered_{}, logits_{}, max_{}, sum_{}, target_logit_{};
  BufferId dx_{}, dx_part_{}, norm_in_gradient_{};
  BufferId mean_{}, mean_gradient_{};
};

}  // namespace

void build_head(State& c) {
  Head head(c, false);
  c.blocks(Phase::forward).head = head.forward(0);
  c.blocks(Phase::backward).head = head.backward(0);
}

void build_prediction_heads(State& c) {
  Head head(c, true);
  for (std::uint32_t k = 1; k <= c.predictions; ++k) {
    c.blocks(Phase::forward).prediction_heads[k - 1] = head.forward(k);
    c.blocks(Phase::backward).prediction_heads[k - 1] = head.backward(k);
  }
}

}  // namespace orrery::lowering
