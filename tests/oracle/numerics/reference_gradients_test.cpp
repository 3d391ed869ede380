#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/base/random.hpp"
#include "exec/train/parameters.hpp"
#include "exec/train/reference_model.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/layer_kinds.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {
namespace {

ModelSpec gpt(bool tied) {
  return test::tiny_gpt({.hidden = 8, .heads = 2, .ffn = 12, .vocabulary = 11, .positions = 7, .tied = tied});
}

ModelSpec llama(bool tied) {
  // Head size x heads is not the hidden size, and three queries share a key.
  ModelSpec m = test::tiny_llama({.hidden = 8,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .head_dim = 4,
                                  .ffn = 12,
                                  .vocabulary = 11,
                                  .positions = 7,
                                  .tied = tied});
  m.rope_theta = 50.0;  // every pair of features turns visibly within five positions
  return m;
}

/// Three experts, two for a token, and a shared one.
ModelSpec mixture(ModelSpec m, Mixture::Scores scores) {
  m.biases = {};
  Mixture& x = m.mixture.emplace();
  x.experts = 3;
  x.per_token = 2;
  x.ffn = 5;
  x.shared_ffn = scores == Mixture::Scores::softmax_all ? 0 : 4;
  x.scores = scores;
  x.scale = 1.5;
  return m;
}

ModelSpec bert() {
  ModelSpec m = gpt(true);
  m.architecture = Architecture::bert;
  m.segments = 2;
  return m;
}

/// Four patches of four numbers: the sequence is 5 long.
ModelSpec vit() {
  ModelSpec m = gpt(false);
  m.architecture = Architecture::vit;
  m.image = Image{4, 2, 1};
  m.max_positions = 5;
  return m;
}

/// DINOv2: weights of features behind each branch, and a head that sees class token and mean.
ModelSpec dinov2() {
  ModelSpec m = vit();
  m.layer_scale = true;
  m.image->pool = Image::Pool::class_and_mean;
  return m;
}

/// CLIP: a norm behind the embedding; no bias of patches or head.
ModelSpec clip() {
  ModelSpec m = vit();
  m.activation = Activation::quick_gelu;
  m.embedding_norm = true;
  m.image->patch_bias = m.image->head_bias = false;
  return m;
}

/// SigLIP: no class token, so the sequence is the four patches, and the head sees their mean.
ModelSpec siglip() {
  ModelSpec m = vit();
  m.biases.qkv = false;
  m.image->class_token = false;
  m.image->pool = Image::Pool::mean;
  m.max_positions = 4;
  return m;
}

ModelSpec latent(std::uint64_t query_rank) {
  ModelSpec m = llama(false);
  m.kv_heads = m.heads = 2;
  m.head_dim = 3;
  m.latent = LatentAttention{query_rank, 5, 4, 2};
  return m;
}

/// As DeepSeek-V2 stretches its angles and scales its scores.
ModelSpec stretched(ModelSpec m) {
  m.rope_theta = 20.0;
  m.rope_scaling = "yarn";
  m.rope_stretch = {.factor = 8.0, .original = 3, .slow = 0.1, .fast = 0.5, .length = 1.1};
  m.attention_scale = 0.4;
  return m;
}

ModelSpec limited(ModelSpec m) {
  m.gate_limit = 0.05;
  return m;
}

ModelSpec predicting(ModelSpec m, std::uint64_t modules) {
  m.prediction_modules = modules;
  return m;
}

/// Three layers of which the second sees all keys, the others a window of 2, or chunks of 3, of 5 positions.
ModelSpec local(ModelSpec m, LocalAttention::Span span) {
  m.layers = 3;
  m.local = LocalAttention{span, span == LocalAttention::Span::window ? 2U : 3U, {2, {}}, 20.0};
  m.sinks = true;
  m.attention_softcap = 1.5;
  return m;
}

/// Six heads, which is no power of two; the last layer does not rotate.
ModelSpec unlike(ModelSpec m) {
  if (m.positions == PositionEncoding::rotary) m.unrotated = {0, {1}};
  if (m.positions == PositionEncoding::learned) m.positions = PositionEncoding::alibi;
  m.attention_scale = 0.8;
  m.sinks = m.positions == PositionEncoding::alibi;
  return m;
}

Workload workload(double dropout) {
  Workload w;
  w.global_batch = 3;
  w.sequence_length = 5;
  w.precision = Precision::fp64;
  w.hidden_dropout = dropout;
  w.attention_dropout = dropout;
  w.seed = 7;
  return w;
}

/// Weights large enough that every nonlinearity bends: biases and norms too are
/// away from their starts.
ParameterSet rough_weights(const ModelSpec& m) {
  ParameterSet set;
  for (const ReferenceParameter& p : parameters_of(m)) {
    Matrix tensor(p.rows, p.columns);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double centre = p.start == ReferenceParameter::Start::ones ? 1.0 : 0.0;
      tensor.values[i] = centre + 0.4 * random_normal(5, stream_of(p.name), i);
    }
    set.emplace(p.name, std::move(tensor));
  }
  return set;
}

struct Case {
  const char* name;
  ModelSpec model;
  double dropout;
  double ignored;
};

/// Looks at the first of each `every` elements of a tensor.
void check_slopes(const Case& c, double step_size = 1e-3, std::size_t every = 1) {
  Workload w = workload(c.dropout);
  if (c.model.image) w.sequence_length = c.model.max_positions;
  if (c.model.mixture) {
    w.routing.kind = Routing::Kind::skewed;
    w.routing.exponent = 0.5;
    w.routing.capacity = 1.1;
    w.routing.auxiliary_loss = 0.5;
  }
  const auto data = c.model.architecture == Architecture::decoder ? synthetic_data(c.model.vocabulary, 3, c.ignored)
                                                                  : data_of(c.model, w);
  const std::uint64_t step = 2;
  ParameterSet weights = rough_weights(c.model);
  const ReferenceGradients result = reference_gradients(c.model, w, weights, *data, step);
  CHECK(result.loss + result.auxiliary == reference_loss(c.model, w, weights, *data, step));

  // A kink within a step would bend the difference, so steps are shorter where there are kinks.
  const ModelSpec& m = c.model;
  const bool kinks = m.activation == Activation::relu || m.activation == Activation::squared_relu || m.qkv_clip > 0.0 ||
                     m.gate_limit > 0.0;
  const double bound = step_size < 1e-3 ? 1e-6 : 1e-7;
  const double h = kinks ? 1e-5 : step_size;
  for (auto& [name, tensor] : weights) {
    double largest = 0.0;
    double worst = 0.0;
    for (std::size_t i = 0; i < tensor.values.size(); i += every) {
      const double start = tensor.values[i];
      const auto loss_at = [&](double distance) {
        tensor.values[i] = start + distance;
        return reference_loss(c.model, w, weights, *data, step);
      };
      const double slope = (8.0 * (loss_at(h) - loss_at(-h)) - (loss_at(2.0 * h) - loss_at(-2.0 * h))) / (12.0 * h);
      tensor.values[i] = start;
      largest = std::max(largest, std::abs(slope));
      worst = std::max(worst, std::abs(slope - result.gradients.at(name).values[i]));
    }
    CAPTURE(name, worst, largest);
    CHECK(largest > 1e-4);  // the tensor does take part
    CHECK(worst <= bound * largest);
  }
}

}  // namespace

// Compares every element of every tensor with the fourth-order central difference
//     f' = (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / (12 h) + O(h^4 f^(5) / 30).
// With h = 1e-3 the truncation is 3e-14 times the fifth derivative, which norms and softmax make as large as 1e5 here.
// The rounding of the loss (near 3, 4e-16) over h is 1e-12; gradients are near 1e-1. The bound 1e-7 of the tensor's
// largest element is ten times what this leaves; a wrong term of a formula is wrong by percents.
TEST_CASE("The reference gradient of every parameter element is the slope of the loss", "[oracle][train]") {
  const Case c = GENERATE(
      Case{"gpt tied", gpt(true), 0.0, 0.0}, Case{"gpt untied, dropout, ignored targets", gpt(false), 0.3, 0.3},
      Case{"gpt tied, dropout, ignored targets", gpt(true), 0.3, 0.3}, Case{"llama untied", llama(false), 0.0, 0.0},
      Case{"llama tied, dropout, ignored targets", llama(true), 0.3, 0.3},
      Case{"mixture, softmax of the chosen", mixture(llama(false), Mixture::Scores::softmax_chosen), 0.0, 0.0},
      Case{"mixture, softmax of all", mixture(llama(false), Mixture::Scores::softmax_all), 0.3, 0.3},
      Case{"mixture, sigmoids", mixture(gpt(true), Mixture::Scores::sigmoid), 0.0, 0.3}, Case{"bert", bert(), 0.0, 0.0},
      Case{"bert, dropout", bert(), 0.3, 0.0}, Case{"vit", vit(), 0.0, 0.0}, Case{"vit, dropout", vit(), 0.3, 0.0},
      Case{"dinov2", dinov2(), 0.0, 0.0}, Case{"dinov2, dropout", dinov2(), 0.3, 0.0}, Case{"clip", clip(), 0.0, 0.0},
      Case{"siglip", siglip(), 0.0, 0.0}, Case{"latent", latent(6), 0.0, 0.0},
      Case{"latent, queries from the stream, dropout", latent(0), 0.3, 0.3},
      Case{"latent, stretched angles", stretched(latent(6)), 0.0, 0.0},
      Case{"gates with a limit", limited(llama(false)), 0.0, 0.0},
      Case{"prediction module, table not tied", predicting(gpt(false), 1), 0.0, 0.0},
      Case{"two prediction modules, tied, dropout, ignored targets", predicting(gpt(true), 2), 0.3, 0.2},
      Case{"windows, sinks and a cap", local(llama(false), LocalAttention::Span::window), 0.0, 0.0},
      Case{"chunks, sinks and a cap, dropout", local(gpt(true), LocalAttention::Span::chunk), 0.3, 0.0},
      Case{"layers that do not rotate, a scale", unlike(llama(true)), 0.0, 0.0},
      Case{"alibi, a scale, sinks", unlike(gpt(false)), 0.3, 0.0},
      Case{"prediction module with experts", predicting(mixture(llama(false), Mixture::Scores::sigmoid), 1), 0.0, 0.0});
  CAPTURE(c.name);
  check_slopes(c);
}

TEST_CASE("The reference gradient is the slope of the loss with every kind of layer", "[oracle][train]") {
  for (const std::span<const test::LayerKindCase> kinds : {test::single_kinds(), test::family_kinds()}) {
    for (const test::LayerKindCase& kind : kinds) {
      for (const bool rotary : {false, true}) {
        ModelSpec m = rotary ? llama(false) : gpt(true);
        if (kind.mixture) m = mixture(m, Mixture::Scores::sigmoid);
        kind.apply(m);
        CAPTURE(kind.name, rotary);
        // Norms of norms have larger fifth derivatives.
        check_slopes({kind.name, m, rotary ? 0.0 : 0.3, 0.0}, 3e-4, test::long_tests() ? 1 : 5);
      }
    }
  }
}
// With zero output weights all V logits are equal, so each of the valid targets
// costs log V, whatever came before.
TEST_CASE("A model with equal logits loses log of the vocabulary per target", "[oracle][train]") {
  const ModelSpec m = gpt(false);
  ParameterSet weights = rough_weights(m);
  for (double& x : weights.at("head.output.weight").values) x = 0.0;
  const auto data = synthetic_data(m.vocabulary, 3, 0.5);
  CHECK(reference_loss(m, workload(0.2), weights, *data, 1) == Approx(std::log(11.0)).epsilon(1e-14));
}

// The same holds for prediction modules: each adds its weight's share.
TEST_CASE("Equal logits of prediction modules lose log of the vocabulary times their weight", "[oracle][train]") {
  const ModelSpec m = predicting(gpt(false), 2);
  ParameterSet weights = rough_weights(m);
  for (double& x : weights.at("head.output.weight").values) x = 0.0;
  Workload w = workload(0.0);
  const auto data = synthetic_data(m.vocabulary, 3, 0.0);
  CHECK(reference_loss(m, w, weights, *data, 1) == Approx(1.3 * std::log(11.0)).epsilon(1e-14));
  w.prediction_loss_weight = 0.1;
  CHECK(reference_loss(m, w, weights, *data, 1) == Approx(1.1 * std::log(11.0)).epsilon(1e-14));
}

// Module k gets the token k ahead of each position, and predicts the one after that.
TEST_CASE("A prediction module is given the token ahead and asked for the one behind it", "[oracle][train]") {
  class Counting final : public DataSource {
   public:
    [[nodiscard]] std::int32_t token(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
      return static_cast<std::int32_t>(position);
    }
    [[nodiscard]] std::int32_t target(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
      return position == 3 ? 9 : -1;
    }
  };
  Workload w = workload(0.0);
  CHECK(token_ahead(Counting(), w, 1, 0, 2, 2) == 4);
  CHECK(token_ahead(Counting(), w, 1, 0, 3, 2) == 0);  // behind the end
  CHECK(target_ahead(Counting(), w, 1, 0, 1, 2) == 9);
  CHECK(target_ahead(Counting(), w, 1, 0, 4, 1) == -1);
  CHECK(count_targets(Counting(), w, 1, 3) == 3);  // of each sequence, at position 0
  CHECK(count_targets(Counting(), w, 1, 4) == 0);
  // The loss of module 1 at position 2 sees positions 0 to 2 of the stream, and the words 1 to 3; that of the model at
  // position 3 the words 0 to 3.  So no loss reaches word 4.
  const ModelSpec m = predicting(gpt(false), 1);
  const ReferenceGradients result = reference_gradients(m, w, rough_weights(m), Counting(), 1);
  const Matrix& word = result.gradients.at("embedding.word.weight");
  for (std::uint64_t v = 0; v < 5; ++v) {
    double largest = 0.0;
    for (std::uint64_t j = 0; j < m.hidden; ++j) largest = std::max(largest, std::abs(word(v, j)));
    CAPTURE(v, largest);
    CHECK((v < 4) == (largest > 0.0));
  }
}

// Position p of the hidden state reads tokens 0..p only: with all targets but
// that of position 2 ignored, the tables' gradients at later positions vanish.
TEST_CASE("A target's loss does not depend on later tokens", "[oracle][train]") {
  class OneTarget final : public DataSource {
   public:
    [[nodiscard]] std::int32_t token(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
      return static_cast<std::int32_t>(position);
    }
    [[nodiscard]] std::int32_t target(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
      return position == 2 ? 9 : -1;
    }
  };
  const ModelSpec m = gpt(false);
  const ReferenceGradients result = reference_gradients(m, workload(0.0), rough_weights(m), OneTarget(), 1);
  CHECK(result.count == 3);  // one per sequence
  const Matrix& position = result.gradients.at("embedding.position.weight");
  for (std::uint64_t p = 0; p < m.max_positions; ++p) {
    double largest = 0.0;
    for (std::uint64_t j = 0; j < m.hidden; ++j) largest = std::max(largest, std::abs(position(p, j)));
    CAPTURE(p, largest);
    CHECK((p <= 2) == (largest > 0.0));
  }
}

// Parameters of the reference are those that the model counts.
TEST_CASE("The reference holds exactly the model's parameters", "[oracle][train]") {
  for (const ModelSpec& m :
       {gpt(true), gpt(false), llama(true), llama(false), mixture(llama(false), Mixture::Scores::sigmoid),
        mixture(gpt(true), Mixture::Scores::softmax_all), bert(), vit(), latent(6), latent(0)}) {
    std::uint64_t count = 0;
    for (const ReferenceParameter& p : parameters_of(m)) count += p.rows * p.columns;
    CHECK(count == parameter_count(m));
  }
  for (const ModelSpec& m : {predicting(gpt(true), 2), predicting(mixture(latent(6), Mixture::Scores::sigmoid), 1)}) {
    std::uint64_t count = 0;
    for (const ReferenceParameter& p : parameters_of(m)) count += p.rows * p.columns;
    CHECK(count == parameter_count(m) + m.prediction_modules * prediction_module_parameter_count(m));
  }
}

}  // namespace orrery
