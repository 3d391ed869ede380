#include <fmt/format.h>

#include "core/program/lower/tensor_1d.hpp"

// Multi-token prediction (DeepSeek-AI, "DeepSeek-V3 technical report", 2024, section 2.2). Module k takes the stream h
// that the model, or module k - 1, has put out, and the embedding e of the token k ahead. It puts
//
//     norm(h) W_1 + norm(e) W_2            the projection of both side by side, as two matrices
//
// into a transformer layer, whose result goes to the model's head behind a norm of the module's own. The Program and
// the weights number it as two layers: this one, and the transformer layer above it. The last stage has all modules.
//
// Every tensor rank makes the projection of its rows (all rows without sequence parallelism), so the projection takes
// no messages.

namespace orrery::lowering {
namespace {

class PredictionModule {
 public:
  explicit PredictionModule(State& c) : c_(c), table_(last_word_table(c)) { declare(); }

  [[nodiscard]] BlockId forward(std::uint32_t number) {
    BlockBuilder f(c_, fmt::format("prediction{}.forward", number), Pass::forward, Section::model);
    Kernel load = c_.kernel(KernelKind::load_tokens, Pass::forward, c_.tokens, 1);
    load.site = static_cast<std::uint8_t>(number);
    f.compute(load, {write(tokens_)});
    f.compute(embedding(KernelKind::embed_forward, Pass::forward),
              {read(tokens_), weight_of(c_, *table_.module, table_.slice), write(whole_)});
    if (c_.sequence_parallel) {
      f.seam(Collective::Kind::reduce_scatter, {read(whole_), write(words_)});
    } else if (c_.tensor > 1) {
      f.seam(Collective::Kind::all_reduce, {update(words_)});
    }
    c_.sharding.norm_forward(c_, f, hidden_norm(), read(c_.hidden), write(hidden_out_), write(hidden_stats_));
    f.compute(product(Pass::forward), {read(hidden_out_), hidden_weight(), write(c_.hidden, 1)});
    c_.sharding.norm_forward(c_, f, token_norm(), read(words_), write(words_out_), write(words_stats_));
    f.compute(product(Pass::forward), {read(words_out_), token_weight(), update(c_.hidden, 1)});
    return f.finish(c_);
  }

  [[nodiscard]] BlockId backward(std::uint32_t number) {
    BlockBuilder b(c_, fmt::format("prediction{}.backward", number), Pass::input_gradient, Section::model);
    const Operand dy = read(c_.hidden_gradient, c_.split_backward ? 1 : 0);
    b.compute(product(Pass::input_gradient), {dy, hidden_weight(), write(hidden_out_gradient_)});
    b.compute(product(Pass::weight_gradient),
              {read(hidden_out_), dy, gradient_of(c_, c_.prediction, "hidden_projection.weight")});
    b.compute(product(Pass::input_gradient), {dy, token_weight(), write(words_out_gradient_)});
    b.compute(product(Pass::weight_gradient),
              {read(words_out_), dy, gradient_of(c_, c_.prediction, "token_projection.weight")});
    const Kernel clear = c_.kernel(KernelKind::fill, Pass::input_gradient, c_.rows, c_.model.hidden);
    b.compute(clear, {write(words_gradient_)});
    c_.sharding.norm_backward(c_, b, token_norm(), read(words_out_gradient_), read(words_), read(words_stats_),
                              update(words_gradient_), std::nullopt);
    if (c_.sequence_parallel) b.seam(Collective::Kind::all_gather, {read(words_gradient_), write(whole_)});
    // Nothing bypasses the projection, and its input may stand in the same buffer.
    b.compute(clear, {write(no_residual_)});
    c_.sharding.norm_backward(c_, b, hidden_norm(), read(hidden_out_gradient_), read(c_.hidden), read(hidden_stats_),
                              write(c_.hidden_gradient), read(no_residual_));
    b.compute(embedding(KernelKind::embed_backward, Pass::weight_gradient),
              {read(tokens_), read(c_.sequence_parallel ? whole_ : words_gradient_),
               gradient_of(c_, *table_.module, table_.slice)});
    return b.finish(c_);
  }

 private:
  void declare() {
    const ModelSpec& m = c_.model;
    const bool sp = c_.sequence_parallel;
    const ShardDim feature{m.hidden, m.hidden, c_.layout.stream_features, false};
    const auto stream = [&](const char* name, Role role, bool cut) {
      return c_.activation(name, role, Scope::layer_microbatch, c_.act, feature, cut);
    };
    const auto statistics = [&](const char* name) {
      return flat_buffer(c_, name, Role::statistic, Scope::layer_microbatch, c_.state,
                         c_.rows * (m.norm == Norm::layer_norm ? 2 : 1));
    };
    tokens_ =
        c_.activation("prediction.tokens", Role::data, Scope::layer_microbatch, DType::i32, {1, 1, {}, false}, false);
    words_ = stream("prediction.words", Role::activation, sp);
    whole_ = sp ? stream("prediction.words.whole", Role::workspace, false) : words_;
    hidden_out_ = stream("prediction.hidden_norm.out", Role::activation, sp);
    hidden_stats_ = statistics("prediction.hidden_norm.stats");
    words_out_ = stream("prediction.token_norm.out", Role::activation, sp);
    words_stats_ = statistics("prediction.token_norm.stats");
    hidden_out_gradient_ = stream("prediction.hidden_norm.out.gradient", Role::workspace, sp);
    words_out_gradient_ = stream("prediction.token_norm.out.gradient", Role::workspace, sp);
    words_gradient_ = stream("prediction.words.gradient", Role::workspace, sp);
    no_residual_ = stream("prediction.no_residual", Role::workspace, sp);
  }

  [[nodiscard]] NormSite hidden_norm() const {
    return {&c_.prediction, "hidden_norm.weight", "hidden_norm.bias", "prediction.hidden_norm"};
  }
  [[nodiscard]] NormSite token_norm() const {
    return {&c_.prediction, "token_norm.weight", "token_norm.bias", "prediction.token_norm"};
  }
  [[nodiscard]] Kernel embedding(KernelKind kind, Pass pass) const {
    return c_.kernel(kind, pass, c_.tokens, c_.model.hidden, c_.vocabulary);
  }
  [[nodiscard]] Kernel product(Pass pass) const {
    const std::uint64_t h = c_.model.hidden;
    const bool weight = pass == Pass::weight_gradient;
    Kernel k = c_.kernel(KernelKind::gemm, pass, weight ? h : c_.rows, h, weight ? c_.rows : h);
    k.compute = c_.product;
    k.options.transpose_a = weight;
    k.options.transpose_b = pass == Pass::input_gradient;
    return k;
  }
  [[nodiscard]] Operand hidden_weight() const { return weight_of(c_, c_.prediction, "hidden_projection.weight"); }
  [[nodiscard]] Operand token_weight() const { return weight_of(c_, c_.prediction, "token_projection.weight"); }

  State& c_;
  HeadMatrix table_;
  BufferId tokens_{}, words_{}, whole_{}, hidden_out_{}, hidden_stats_{}, words_out_{}, words_stats_{};
  BufferId hidden_out_gradient_{}, words_out_gradient_{}, words_gradient_{}, no_residual_{};
};

}  // namespace

void build_predictions(State& c) {
  if (c.predictions == 0) return;
  PredictionModule module(c);
  for (const LayerKind& kind : c.kinds) {
    if (kind.prediction == 0) continue;
    c.blocks(Phase::forward)[kind].plain = module.forward(kind.prediction);
    c.blocks(Phase::backward)[kind].plain = module.backward(kind.prediction);
  }
  build_prediction_heads(c);
}

}  // namespace orrery::lowering
