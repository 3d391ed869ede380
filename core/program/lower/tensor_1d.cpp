#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

namespace {

/// Megatron's columns, then rows (Shoeybi et al., arXiv 1909.08053): one product
/// on each rank; callers sum or gather between them.
class Megatron final : public TensorSharding {
 public:
  TensorLayout layout() const override {
    TensorLayout l;
    l.wide_features = l.widen_out = l.narrow_in = l.vocabulary = {Axis::tensor};
    return l;
  }

  void forward(State& c, BlockBuilder& b, const Product& p, BufferId x, BufferId y) const override {
    Kernel k = c.kernel(KernelKind::gemm, Pass::forward, rows_of(c, p), p.out, p.in);
    k.compute = compute_type(c, p);
    k.options.transpose_b = p.transposed;
    const Operand w = weight(c, p);
    if (p.bias != nullptr) {
      k.options.bias = true;
      b.compute(k, {of_rows(p, read(x)), w, write(y), weight_of(c, *p.module, p.bias)});
    } else {
      b.compute(k, {of_rows(p, read(x)), w, p.adds ? update(y) : write(y)});
    }
  }

  void input_gradient(State& c, BlockBuilder& b, const Product& p, Operand dy, BufferId dx) const override {
    Kernel k = c.kernel(KernelKind::gemm, Pass::input_gradient, rows_of(c, p), p.in, p.out);
    k.compute = compute_type(c, p);
    k.options.transpose_b = !p.transposed;
    b.compute(k, {dy, weight(c, p), of_rows(p, p.adds ? update(dx) : write(dx))});
  }

  void weight_gradient(State& c, BlockBuilder& b, const Product& p, BufferId x, Operand dy) const override {
    const std::uint64_t rows = p.transposed ? p.out : p.in;
    Kernel k = c.kernel(KernelKind::gemm, Pass::weight_gradient, rows, p.transposed ? p.in : p.out, rows_of(c, p));
    k.compute = compute_type(c, p);
    k.options.transpose_a = true;
    const Operand input = of_rows(p, read(x));
    b.compute(k, {p.transposed ? dy : input, p.transposed ? input : dy, gradient_of(c, *p.module, p.weight)});
  }

  void norm_forward(State& c, BlockBuilder& b, const NormSite& site, Operand x, Operand y,
                    Operand stats) const override {
    const bool layer = c.model.norm == Norm::layer_norm;
    Kernel k = c.kernel(layer ? KernelKind::layer_norm_forward : KernelKind::rms_norm_forward, Pass::forward, c.rows,
                        c.model.hidden);
    k.parameter = c.model.norm_epsilon;
    note_norm_parameters(c.model, k);
    OperandArray operands{x};
    add_norm_weights(c, site, operands);
    operands.add({y, stats});
    b.compute(k, operands);
  }

  void norm_backward(State& c, BlockBuilder& b, const NormSite& site, Operand dy, Operand x, Operand stats, Operand dx,
                     std::optional<Operand> residual) const override {
    const bool layer = c.model.norm == Norm::layer_norm;
    Kernel weight = c.kernel(layer ? KernelKind::layer_norm_backward_weight : KernelKind::rms_norm_backward_weight,
                             Pass::weight_gradient, c.rows, c.model.hidden);
    note_norm_parameters(c.model, weight);
    const auto weight_gradient = [&] {
      if (!c.model.norm_weight || !c.trains_weights()) return;
      OperandArray operands{dy, x, stats};
      add_norm_gradients(c, site, operands);
      b.compute(weight, operands);
    };
    // A gradient in the memory of the weight comes after the last op that reads the weight.
    const bool shared = shares_gradient(c, site);
    if (!shared) weight_gradient();
    Kernel input = c.kernel(layer ? KernelKind::layer_norm_backward_input : KernelKind::rms_norm_backward_input,
                            Pass::input_gradient, c.rows, c.model.hidden);
    input.options.unweighted = !c.model.norm_weight;
    OperandArray operands{dy, x};
    if (c.model.norm_weight) operands.add(norm_gamma(c, site));
    operands.add(stats);
    if (residual) {
      input.options.residual = true;
      operands.add(*residual);
    }
    operands.add(dx);
    b.compute(input, operands);
    if (shared) weight_gradient();
  }

  void embed_forward(State& c, BlockBuilder& b, BufferId tokens, BufferId x) const override {
    b.compute(c.kernel(KernelKind::embed_forward, Pass::forward, c.tokens, c.model.hidden, c.vocabulary),
              {read(tokens), weight_of(c, c.embedding, "word.weight"), write(x)});
  }

  void embed_backward(State& c, BlockBuilder& b, BufferId tokens, BufferId dx) const override {
    b.compute(c.kernel(KernelKind::embed_backward, Pass::weight_gradient, c.tokens, c.model.hidden, c.vocabulary),
              {read(tokens), read(dx), gradient_of(c, c.embedding, "word.weight")});
  }

 private:
  static Operand weight(const State& c, const Product& p) {
    return p.brought != no_buffer ? read(p.brought) : weight_of(c, *p.module, p.weight);
  }
  static std::uint64_t rows_of(const State& c, const Product& p) { return p.rows > 0 ? p.rows : c.tokens; }
  /// The product's rows of x, or of its gradient.
  static Operand of_rows(const Product& p, Operand x) {
    if (p.rows > 0) x.offset = p.first * p.in, x.count = p.rows * p.in;
    return x;
  }
};

}  // namespace

const TensorSharding& tensor_1d() {
  static const Megatron sharding;
  return sharding;
}

void build_model(State& c) {
  const ShardDim feature{c.model.hidden, c.model.hidden, c.layout.stream_features, false};
  c.hidden = c.activation("hidden", Role::activation, Scope::layer_microbatch, c.act, feature, c.sequence_parallel);
  // Layers pass one gradient on and add to it, unless weight gradients still need its old value.
  c.hidden_gradient =
      c.activation("hidden.gradient", Role::workspace, c.split_backward ? Scope::layer_microbatch : Scope::microbatch,
                   c.act, feature, c.sequence_parallel);
  build_embedding(c);
  build_layer(c);
  build_head(c);
  build_predictions(c);
}

}  // namespace orrery::lowering
