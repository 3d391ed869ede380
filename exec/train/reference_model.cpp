// One class is longer than 600 lines: it is the whole model on one device, forward and backward, so that a reader can
// set each layer beside its formula and its gradient. Attention, mixtures and adapters are files of their own.
#include "exec/train/reference_model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/random.hpp"
#include "exec/train/parameters.hpp"
#include "exec/train/reference_adapters.hpp"
#include "exec/train/reference_attention.hpp"
#include "exec/train/reference_functions.hpp"
#include "exec/train/reference_mixture.hpp"
#include "exec/train/reference_storage.hpp"

namespace orrery {
namespace {

enum Site : std::uint64_t { embedding_site, probability_site, attention_site, ffn_site };

/// Values that the backward pass of a layer reads again.
struct LayerRecord {
  Matrix x, norm1, raw_qkv, clipped_qkv, qkv, context, mid, norm2, pre, act;
  MixtureRecord mixture;
  Matrix attention_sum, ffn_sum;                        // what norms behind the residual, or behind a branch, take
  Matrix query_latent, query_norm, kv_latent, kv_norm;  // latent attention
};

/// One pass over the batch: the same objects serve every sequence.
class Pass {
 public:
  Pass(const ModelSpec& model, const Workload& workload, const ParameterSet& weights, const DataSource& data,
       std::uint64_t step, const std::optional<StorageRounding>& rounding)
      : model_(model), workload_(workload), weights_(weights), data_(data), step_(step), storage_(rounding) {}

  ReferenceGradients run(bool backward) {
    ReferenceGradients result;
    result.count = count_targets(data_, workload_, step_);
    count_ = static_cast<double>(result.count);
    if (backward) gradients_ = zeros_like(weights_);
    for (std::uint64_t sequence = 0; sequence < workload_.global_batch; ++sequence) {
      sequence_ = sequence;
      std::vector<LayerRecord> records(model_.layers);
      Matrix hidden = embed();
      for (std::uint64_t layer = 0; layer < model_.layers; ++layer)
        hidden = layer_forward(layer, hidden, records[layer]);
      Matrix further = predict(1, hidden, result.loss, backward);
      Matrix signal = head({"head.norm", 0, 1.0, count_}, hidden, result.loss, backward);
      if (!backward) continue;
      if (model_.prediction_modules > 0) add(signal, further);
      for (std::uint64_t layer = model_.layers; layer-- > 0;) signal = layer_backward(layer, signal, records[layer]);
      embed_backward(signal);
      storage_.gradients(gradients_);
    }
    result.gradients = std::move(gradients_);
    result.largest_signal = storage_.largest_signal;
    result.auxiliary = auxiliary_;
    return result;
  }

 private:
  const Matrix& weight(const std::string& name) const { return weights_.at(name); }
  Matrix& gradient(const std::string& name) { return gradients_.at(name); }
  const Matrix* optional_weight(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? nullptr : &found->second;
  }
  Matrix* optional_gradient(const std::string& name) {
    const auto found = gradients_.find(name);
    return found == gradients_.end() ? nullptr : &found->second;
  }
  static std::string prefix(std::uint64_t layer) { return "layers." + std::to_string(layer) + "."; }
  std::string output_table() const { return model_.tied_embeddings ? "embedding.word.weight" : "head.output.weight"; }

  DropoutKey key(Site site, std::uint64_t layer) const {
    const double rate = site == probability_site ? workload_.attention_dropout : workload_.hidden_dropout;
    return {rate, workload_.seed, step_, site, layer};
  }

  /// The mask is its own derivative: forward and backward both multiply by it.
  void apply_hidden_dropout(Matrix& x, Site site, std::uint64_t layer) const {
    const DropoutKey mask = key(site, layer);
    for (std::uint64_t p = 0; p < x.rows; ++p) {
      for (std::uint64_t j = 0; j < x.columns; ++j) {
        x(p, j) *= dropout_factor(mask, (p * workload_.global_batch + sequence_) * model_.hidden + j);
      }
    }
  }

  Matrix norm(const std::string& name, const Matrix& x) {
    const Matrix* beta = optional_weight(name + ".bias");
    const Matrix* gamma = optional_weight(name + ".weight");
    const Matrix ones = gamma == nullptr ? unit_weights(x.columns) : Matrix();
    Matrix y = norm_forward(model_.norm, model_.norm_epsilon, x, gamma == nullptr ? ones : *gamma, beta);
    kept(y);
    return y;
  }
  Matrix norm_derivative(const std::string& name, const Matrix& dy, const Matrix& x) {
    const Matrix* gamma = optional_weight(name + ".weight");
    if (gamma == nullptr) {
      Matrix none(1, x.columns);
      return norm_backward(model_.norm, model_.norm_epsilon, dy, x, unit_weights(x.columns), none, nullptr);
    }
    return norm_backward(model_.norm, model_.norm_epsilon, dy, x, *gamma, gradient(name + ".weight"),
                         optional_gradient(name + ".bias"));
  }
  static Matrix unit_weights(std::uint64_t n) {
    Matrix ones(1, n);
    std::fill(ones.values.begin(), ones.values.end(), 1.0);
    return ones;
  }

  void kept(Matrix& activation) { storage_.kept(activation); }
  void signal(Matrix& gradient_of_activation) { storage_.signal(gradient_of_activation); }

  Matrix linear(const std::string& name, const Matrix& x) {
    Matrix y = product(x, weight(name + ".weight"));
    if (const Matrix* bias = optional_weight(name + ".bias")) add_to_rows(y, *bias);
    kept(y);
    return y;
  }
  Matrix linear_derivative(const std::string& name, const Matrix& dy, const Matrix& x) {
    add_transposed_product(gradient(name + ".weight"), x, dy);
    if (Matrix* bias = optional_gradient(name + ".bias")) add_column_sums(*bias, dy);
    Matrix dx = product_transposed(dy, weight(name + ".weight"));
    signal(dx);
    return dx;
  }

  bool bert() const { return model_.architecture == Architecture::bert; }
  bool vit() const { return model_.architecture == Architecture::vit; }

  /// Position of the first patch, behind the class token where there is one.
  std::uint64_t first_patch() const { return model_.image->class_token ? 1 : 0; }
  /// The numbers of every patch; nothing for the class token.
  Matrix patches() {
    Matrix image(workload_.sequence_length, patch_width(*model_.image));
    for (std::uint64_t p = first_patch(); p < image.rows; ++p) {
      for (std::uint64_t j = 0; j < image.columns; ++j) {
        image(p, j) = data_.pixel(step_, sequence_, p + 1 - first_patch(), j);
      }
    }
    kept(image);
    return image;
  }

  Matrix embed_image() {
    patches_ = patches();
    Matrix x = product(patches_, weight("embedding.patch.weight"));
    const Matrix& position = weight("embedding.position.weight");
    for (std::uint64_t p = 0; p < x.rows; ++p) {
      const Matrix* row = optional_weight(p < first_patch() ? "embedding.class.weight" : "embedding.patch.bias");
      for (std::uint64_t j = 0; j < x.columns; ++j) x(p, j) += (row != nullptr ? (*row)(0, j) : 0.0) + position(p, j);
    }
    if (model_.embedding_norm) {
      kept(x);
      embedded_ = x;
      x = norm("embedding.norm", x);
    }
    apply_hidden_dropout(x, embedding_site, 0);
    kept(x);
    return x;
  }

  void embed_image_backward(Matrix dx) {
    if (model_.embedding_norm) {
      dx = norm_derivative("embedding.norm", dx, embedded_);
      signal(dx);
    }
    add_transposed_product(gradient("embedding.patch.weight"), patches_, dx);
    Matrix& position = gradient("embedding.position.weight");
    for (std::uint64_t p = 0; p < dx.rows; ++p) {
      Matrix* row = optional_gradient(p < first_patch() ? "embedding.class.weight" : "embedding.patch.bias");
      for (std::uint64_t j = 0; j < dx.columns; ++j) {
        if (row != nullptr) (*row)(0, j) += dx(p, j);
        position(p, j) += dx(p, j);
      }
    }
  }

  Matrix embed() {
    if (vit()) return embed_image();
    Matrix x(workload_.sequence_length, model_.hidden);
    const Matrix& word = weight("embedding.word.weight");
    const Matrix* position = optional_weight("embedding.position.weight");
    for (std::uint64_t p = 0; p < x.rows; ++p) {
      const auto token = static_cast<std::uint64_t>(data_.token(step_, sequence_, p));
      for (std::uint64_t j = 0; j < x.columns; ++j) {
        x(p, j) = model_.embedding_scale * word(token, j) +
                  (position != nullptr ? (*position)(p + model_.position_offset, j) : 0.0);
      }
    }
    if (model_.segments > 0) {
      const Matrix& kinds = weight("embedding.segment.weight");
      for (std::uint64_t p = 0; p < x.rows; ++p) {
        const auto segment = static_cast<std::uint64_t>(data_.segment(step_, sequence_, p));
        for (std::uint64_t j = 0; j < x.columns; ++j) x(p, j) += kinds(segment, j);
      }
    }
    if (bert() || model_.embedding_norm) {
      kept(x);
      embedded_ = x;
      x = norm("embedding.norm", x);
    }
    apply_hidden_dropout(x, embedding_site, 0);
    kept(x);
    return x;
  }

  void embed_backward(Matrix dx) {
    apply_hidden_dropout(dx, embedding_site, 0);
    signal(dx);
    if (vit()) return embed_image_backward(dx);
    if (bert() || model_.embedding_norm) {
      dx = norm_derivative("embedding.norm", dx, embedded_);
      signal(dx);
    }
    if (model_.segments > 0) {
      Matrix& kinds = gradient("embedding.segment.weight");
      for (std::uint64_t p = 0; p < dx.rows; ++p) {
        const auto segment = static_cast<std::uint64_t>(data_.segment(step_, sequence_, p));
        for (std::uint64_t j = 0; j < dx.columns; ++j) kinds(segment, j) += dx(p, j);
      }
    }
    Matrix& word = gradient("embedding.word.weight");
    Matrix* position = optional_gradient("embedding.position.weight");
    for (std::uint64_t p = 0; p < dx.rows; ++p) {
      const auto token = static_cast<std::uint64_t>(data_.token(step_, sequence_, p));
      for (std::uint64_t j = 0; j < dx.columns; ++j) {
        word(token, j) += model_.embedding_scale * dx(p, j);
        if (position != nullptr) (*position)(p + model_.position_offset, j) += dx(p, j);
      }
    }
  }

  /// Packed queries, keys and values of x.
  Matrix heads_of(std::uint64_t layer, const std::string& at, const Matrix& x, LayerRecord& r) {
    Matrix qkv;
    if (model_.latent) {
      const bool narrow = model_.latent->query_rank > 0;
      if (narrow) {
        r.query_latent = linear(at + "query_down", x);
        r.query_norm = norm(at + "query_norm", r.query_latent);
      }
      r.kv_latent = linear(at + "kv_down", x);
      r.kv_norm = norm(at + "kv_norm", r.kv_latent);
      qkv = latent_heads(model_, linear(at + "query_up", narrow ? r.query_norm : x), linear(at + "kv_up", r.kv_norm),
                         linear(at + "key_rope", x));
      kept(qkv);
      return qkv;
    }
    qkv = linear(at + "qkv", x);
    if (model_.qkv_clip > 0.0) {
      r.raw_qkv = qkv;
      for (double& v : qkv.values) v = std::clamp(v, -model_.qkv_clip, model_.qkv_clip);
    }
    if (norms_heads(layer)) {
      r.clipped_qkv = qkv;
      qkv = query_key_norm_forward(model_, qkv, optional_weight(at + "query_norm.weight"),
                                   optional_weight(at + "key_norm.weight"));
      kept(qkv);
    }
    if (rotates(model_, layer)) {
      rotate(model_, layer, qkv, 1.0);
      kept(qkv);
    }
    return qkv;
  }
  /// Llama-4's norms without weights are those of layers that rotate.
  [[nodiscard]] bool norms_heads(std::uint64_t layer) const {
    return model_.query_key_norm != QueryKeyNorm::none &&
           (model_.query_key_norm != QueryKeyNorm::unweighted || rotates(model_, layer));
  }
  /// Goes from dqkv to dx.
  Matrix heads_derivative(std::uint64_t layer, const std::string& at, Matrix dqkv, const Matrix& x,
                          const LayerRecord& r) {
    if (model_.latent) {
      LatentHeads d = latent_heads_backward(model_, dqkv);
      signal(d.queries);
      signal(d.pairs);
      signal(d.key);
      const auto down = [&](const std::string& name, const Matrix& dout, const Matrix& raw) {
        Matrix draw = norm_derivative(at + name + "_norm", dout, raw);
        signal(draw);
        return linear_derivative(at + name + "_down", draw, x);
      };
      Matrix dx = down("kv", linear_derivative(at + "kv_up", d.pairs, r.kv_norm), r.kv_latent);
      add(dx, linear_derivative(at + "key_rope", d.key, x));
      const bool narrow = model_.latent->query_rank > 0;
      const Matrix dquery = linear_derivative(at + "query_up", d.queries, narrow ? r.query_norm : x);
      add(dx, narrow ? down("query", dquery, r.query_latent) : dquery);
      signal(dx);
      return dx;
    }
    if (rotates(model_, layer)) {
      rotate(model_, layer, dqkv, -1.0);
      signal(dqkv);
    }
    if (norms_heads(layer)) {
      dqkv =
          query_key_norm_backward(model_, dqkv, r.clipped_qkv, optional_weight(at + "query_norm.weight"),
                                  optional_weight(at + "key_norm.weight"), optional_gradient(at + "query_norm.weight"),
                                  optional_gradient(at + "key_norm.weight"));
      signal(dqkv);
    }
    if (model_.qkv_clip > 0.0) {
      for (std::size_t i = 0; i < dqkv.values.size(); ++i) {
        if (std::abs(r.raw_qkv.values[i]) > model_.qkv_clip) dqkv.values[i] = 0.0;
      }
    }
    return linear_derivative(at + "qkv", dqkv, x);
  }
  AttentionOf attention_of(std::uint64_t layer) const {
    return {layer, sequence_, key(probability_site, layer), optional_weight(prefix(layer) + "attention.sinks")};
  }
  /// The attention part behind its norm, before dropout.
  Matrix attention(std::uint64_t layer, const Matrix& x, LayerRecord& r) {
    const std::string at = prefix(layer) + "attention.";
    r.qkv = heads_of(layer, at, x, r);
    r.context = attention_forward(model_, attention_of(layer), r.qkv);
    kept(r.context);
    return linear(at + "out", r.context);
  }
  Matrix attention_derivative(std::uint64_t layer, const Matrix& dy, const Matrix& x, const LayerRecord& r) {
    const std::string at = prefix(layer) + "attention.";
    const Matrix dcontext = linear_derivative(at + "out", dy, r.context);
    std::function<double(double)> probability;
    if (storage_.rounds()) probability = [this](double p) { return storage_.stored(p, 1.0); };
    Matrix dqkv = attention_backward(model_, attention_of(layer), dcontext, r.qkv, r.context,
                                     optional_gradient(at + "sinks"), storage_.largest_signal, probability);
    signal(dqkv);
    return heads_derivative(layer, at, std::move(dqkv), x, r);
  }

  /// BERT: mid = norm1(x + attention(x)), y = norm2(mid + feed-forward(mid)).
  Matrix post_norm_forward(std::uint64_t layer, const Matrix& x, LayerRecord& r) {
    const std::string at = prefix(layer);
    r.x = x;
    r.attention_sum = attention(layer, x, r);
    apply_hidden_dropout(r.attention_sum, attention_site, layer);
    add(r.attention_sum, x);
    kept(r.attention_sum);
    r.mid = norm(at + "norm1", r.attention_sum);
    r.pre = linear(at + "ffn.up", r.mid);
    r.act = activation_forward(model_, r.pre);
    kept(r.act);
    r.ffn_sum = linear(at + "ffn.down", r.act);
    apply_hidden_dropout(r.ffn_sum, ffn_site, layer);
    add(r.ffn_sum, r.mid);
    kept(r.ffn_sum);
    return norm(at + "norm2", r.ffn_sum);
  }
  Matrix post_norm_backward(std::uint64_t layer, const Matrix& dy, const LayerRecord& r) {
    const std::string at = prefix(layer);
    Matrix dsum = norm_derivative(at + "norm2", dy, r.ffn_sum);
    signal(dsum);
    Matrix branch = dsum;
    apply_hidden_dropout(branch, ffn_site, layer);
    signal(branch);
    Matrix dpre = activation_backward(model_, linear_derivative(at + "ffn.down", branch, r.act), r.pre);
    signal(dpre);
    Matrix dmid = linear_derivative(at + "ffn.up", dpre, r.mid);
    add(dmid, dsum);
    signal(dmid);
    dsum = norm_derivative(at + "norm1", dmid, r.attention_sum);
    signal(dsum);
    branch = dsum;
    apply_hidden_dropout(branch, attention_site, layer);
    signal(branch);
    Matrix dx = attention_derivative(layer, branch, r.x, r);
    add(dx, dsum);
    signal(dx);
    return dx;
  }

  [[nodiscard]] bool norms_before() const { return model_.branch_norms != BranchNorms::after; }
  [[nodiscard]] bool norms_behind() const { return model_.branch_norms != BranchNorms::before; }
  [[nodiscard]] bool one_norm() const { return model_.parallel == ParallelBranches::one_norm; }

  static void scale_features(Matrix& x, const Matrix& by) {
    for (std::uint64_t p = 0; p < x.rows; ++p) {
      for (std::uint64_t j = 0; j < x.columns; ++j) x(p, j) *= by(0, j);
    }
  }

  /// The stream behind a branch: residual + scale dropout(norm(branch)), or with weights of features in the norm's
  /// place.
  Matrix ended(const std::string& name, Site site, std::uint64_t layer, Matrix branch, const Matrix& residual,
               Matrix& normed) {
    if (norms_behind()) {
      kept(branch);
      normed = branch;
      branch = norm(name + ".out_norm", branch);
    }
    if (model_.layer_scale) {
      kept(branch);
      normed = branch;
      scale_features(branch, weight(name + ".scale.weight"));
      kept(branch);
    }
    apply_hidden_dropout(branch, site, layer);
    multiply(branch, model_.residual_scale);
    add(branch, residual);
    kept(branch);
    return branch;
  }
  /// The branch's gradient from the stream's behind it.
  Matrix ended_derivative(const std::string& name, Site site, std::uint64_t layer, Matrix branch,
                          const Matrix& normed) {
    apply_hidden_dropout(branch, site, layer);
    multiply(branch, model_.residual_scale);
    signal(branch);
    if (model_.layer_scale) {
      Matrix& gamma = gradient(name + ".scale.weight");
      for (std::uint64_t p = 0; p < branch.rows; ++p) {
        for (std::uint64_t j = 0; j < branch.columns; ++j) gamma(0, j) += branch(p, j) * normed(p, j);
      }
      scale_features(branch, weight(name + ".scale.weight"));
      signal(branch);
    }
    if (!norms_behind()) return branch;
    branch = norm_derivative(name + ".out_norm", branch, normed);
    signal(branch);
    return branch;
  }

  Matrix layer_forward(std::uint64_t layer, const Matrix& x, LayerRecord& r) {
    if (bert()) return post_norm_forward(layer, x, r);
    const std::string at = prefix(layer);
    r.x = x;
    r.norm1 = norms_before() ? norm(at + "norm1", x) : x;
    Matrix branch = attention(layer, r.norm1, r);
    if (model_.parallel != ParallelBranches::none) {
      r.norm2 = one_norm() ? r.norm1 : norm(at + "norm2", x);
      add(branch, dense_forward(at, r));
      kept(branch);
      return ended(at + "attention", attention_site, layer, branch, x, r.attention_sum);
    }
    r.mid = ended(at + "attention", attention_site, layer, branch, x, r.attention_sum);
    r.norm2 = norms_before() ? norm(at + "norm2", r.mid) : r.mid;
    branch = is_mixture(model_, layer) ? mixture_forward(layer_pass(layer), r.norm2, r.mixture) : dense_forward(at, r);
    return ended(at + "ffn", ffn_site, layer, branch, r.mid, r.ffn_sum);
  }

  Matrix dense_forward(const std::string& at, LayerRecord& r) {
    r.pre = linear(at + "ffn.up", r.norm2);
    r.act = activation_forward(model_, r.pre);
    kept(r.act);
    return linear(at + "ffn.down", r.act);
  }
  Matrix dense_backward(const std::string& at, const Matrix& dy, const LayerRecord& r) {
    Matrix dpre = activation_backward(model_, linear_derivative(at + "ffn.down", dy, r.act), r.pre);
    signal(dpre);
    return linear_derivative(at + "ffn.up", dpre, r.norm2);
  }

  MixturePass layer_pass(std::uint64_t layer) {
    return {model_,
            workload_,
            layer,
            sequence_,
            [this, layer](const char* name) -> const Matrix& { return weight(prefix(layer) + name); },
            [this, layer](const char* name) -> Matrix& { return gradient(prefix(layer) + name); },
            [this](Matrix& m) { kept(m); },
            [this](Matrix& m) { signal(m); },
            &auxiliary_};
  }

  Matrix layer_backward(std::uint64_t layer, const Matrix& dy, const LayerRecord& r) {
    if (bert()) return post_norm_backward(layer, dy, r);
    const std::string at = prefix(layer);
    if (model_.parallel != ParallelBranches::none) return parallel_backward(layer, dy, r);
    Matrix branch = ended_derivative(at + "ffn", ffn_site, layer, dy, r.ffn_sum);  // the residual keeps dy
    Matrix dmid = is_mixture(model_, layer) ? mixture_backward(layer_pass(layer), branch, r.norm2, r.mixture)
                                            : dense_backward(at, branch, r);
    if (norms_before()) dmid = norm_derivative(at + "norm2", dmid, r.mid);
    add(dmid, dy);
    signal(dmid);
    branch = ended_derivative(at + "attention", attention_site, layer, dmid, r.attention_sum);
    Matrix dx = attention_derivative(layer, branch, r.norm1, r);
    if (norms_before()) dx = norm_derivative(at + "norm1", dx, r.x);
    add(dx, dmid);
    signal(dx);
    return dx;
  }

  Matrix parallel_backward(std::uint64_t layer, const Matrix& dy, const LayerRecord& r) {
    const std::string at = prefix(layer);
    const Matrix branch = ended_derivative(at + "attention", attention_site, layer, dy, r.attention_sum);
    Matrix dffn = dense_backward(at, branch, r);
    Matrix dx = attention_derivative(layer, branch, r.norm1, r);
    if (one_norm()) {
      add(dx, dffn);
      signal(dx);
      dx = norm_derivative(at + "norm1", dx, r.x);
    } else {
      dx = norm_derivative(at + "norm1", dx, r.x);
      add(dx, norm_derivative(at + "norm2", dffn, r.x));
    }
    add(dx, dy);
    signal(dx);
    return dx;
  }

  /// Runs prediction module `k` and those above it, on the stream that the model, or the module before, has put out.
  /// Adds their share of the loss and returns d loss / d stream.
  Matrix predict(std::uint64_t k, const Matrix& stream, double& loss, bool backward) {
    if (k > model_.prediction_modules) return {};
    const std::uint64_t number = model_.layers + 2 * (k - 1);
    const std::string at = prefix(number);
    const std::uint64_t h = model_.hidden;
    const Matrix& table = weight("embedding.word.weight");
    const auto token = [&](std::uint64_t p) {
      const std::uint64_t there = p + k;
      return there < workload_.sequence_length ? static_cast<std::uint64_t>(data_.token(step_, sequence_, there)) : 0;
    };
    Matrix words(stream.rows, h);
    for (std::uint64_t p = 0; p < words.rows; ++p) {
      for (std::uint64_t j = 0; j < h; ++j) words(p, j) = table(token(p), j);
    }
    kept(words);
    const Matrix first = norm(at + "hidden_norm", stream), second = norm(at + "token_norm", words);
    Matrix in = linear(at + "hidden_projection", first);
    add(in, linear(at + "token_projection", second));
    kept(in);
    LayerRecord record;
    const Matrix out = layer_forward(number + 1, in, record);
    Matrix signal_above = predict(k + 1, out, loss, backward);
    const double part = prediction_weight(model_, workload_);
    const auto count = static_cast<double>(count_targets(data_, workload_, step_, k));
    Matrix dout = head({at + "output_norm", k, part, count}, out, loss, backward);
    if (!backward) return {};
    if (k < model_.prediction_modules) add(dout, signal_above);
    signal(dout);
    const Matrix din = layer_backward(number + 1, dout, record);
    Matrix dwords = norm_derivative(at + "token_norm", linear_derivative(at + "token_projection", din, second), words);
    signal(dwords);
    Matrix& dtable = gradient("embedding.word.weight");
    for (std::uint64_t p = 0; p < words.rows; ++p) {
      for (std::uint64_t j = 0; j < h; ++j) dtable(token(p), j) += dwords(p, j);
    }
    Matrix dstream =
        norm_derivative(at + "hidden_norm", linear_derivative(at + "hidden_projection", din, first), stream);
    signal(dstream);
    return dstream;
  }

  /// What a head has to predict.
  struct Asked {
    std::string norm;     ///< before the table
    std::uint64_t ahead;  ///< positions that its targets lie further on
    double part;          ///< of the loss
    double count;         ///< targets of the global batch
  };

  /// The mean of the patches of an image, as one row.
  Matrix mean_of_patches(const Matrix& x) const {
    const auto patches = static_cast<double>(x.rows - first_patch());
    Matrix mean(1, x.columns);
    for (std::uint64_t p = first_patch(); p < x.rows; ++p) {
      for (std::uint64_t j = 0; j < x.columns; ++j) mean(0, j) += x(p, j) / patches;
    }
    return mean;
  }

  /// An image's head sees its class token, the mean of its patches, or both, each through a matrix of its own.
  Matrix image_head(const Asked& asked, const Matrix& hidden, double& loss, bool backward) {
    const Image& image = *model_.image;
    const Matrix normed = norm(asked.norm, hidden);
    const std::string mean_matrix = sees_class_token(image) ? "head.output.mean.weight" : "head.output.weight";
    Matrix mean, logits(1, model_.vocabulary), token(1, model_.hidden);
    if (sees_class_token(image)) {
      for (std::uint64_t j = 0; j < token.columns; ++j) token(0, j) = normed(0, j);
      add(logits, product_transposed(token, weight("head.output.weight")));
    }
    if (sees_mean(image)) {
      mean = mean_of_patches(normed);
      kept(mean);
      add(logits, product_transposed(mean, weight(mean_matrix)));
    }
    if (const Matrix* bias = optional_weight("head.output.bias")) add_to_rows(logits, *bias);
    logits =
        cross_entropy(model_, std::move(logits), {data_.target(step_, sequence_, 0)}, asked.part / asked.count, loss);
    if (!backward) return {};
    if (Matrix* bias = optional_gradient("head.output.bias")) add_column_sums(*bias, logits);
    Matrix dnormed(normed.rows, normed.columns);
    if (sees_class_token(image)) {
      add_transposed_product(gradient("head.output.weight"), logits, token);
      const Matrix d = product(logits, weight("head.output.weight"));
      for (std::uint64_t j = 0; j < d.columns; ++j) dnormed(0, j) = d(0, j);
    }
    if (sees_mean(image)) {
      add_transposed_product(gradient(mean_matrix), logits, mean);
      Matrix d = product(logits, weight(mean_matrix));
      signal(d);
      const auto patches = static_cast<double>(normed.rows - first_patch());
      for (std::uint64_t p = first_patch(); p < normed.rows; ++p) {
        for (std::uint64_t j = 0; j < d.columns; ++j) dnormed(p, j) = d(0, j) / patches;
      }
    }
    signal(dnormed);
    Matrix dhidden = norm_derivative(asked.norm, dnormed, hidden);
    signal(dhidden);
    return dhidden;
  }

  /// Adds this sequence's share of the loss; returns d loss / d hidden.
  Matrix head(const Asked& asked, const Matrix& hidden, double& loss, bool backward) {
    if (vit()) return image_head(asked, hidden, loss, backward);
    // BERT has one more layer before the norm.
    ModelSpec shape = model_;
    shape.ffn = model_.hidden;
    Matrix pre, transformed;
    if (bert()) {
      pre = linear("head.dense", hidden);
      transformed = activation_forward(shape, pre);
      kept(transformed);
    }
    const Matrix& x = bert() ? transformed : hidden;
    const Matrix normed = norm(asked.norm, x);
    Matrix logits = product_transposed(normed, weight(output_table()));
    if (const Matrix* bias = optional_weight("head.output.bias")) add_to_rows(logits, *bias);
    std::vector<std::int32_t> targets(logits.rows, -1);
    for (std::uint64_t p = 0; p + asked.ahead < workload_.sequence_length && p < logits.rows; ++p) {
      targets[p] = data_.target(step_, sequence_, p + asked.ahead);
    }
    logits = cross_entropy(model_, std::move(logits), targets, asked.part / asked.count, loss);
    if (!backward) return {};
    add_transposed_product(gradient(output_table()), logits, normed);
    if (Matrix* bias = optional_gradient("head.output.bias")) add_column_sums(*bias, logits);
    Matrix dnormed = product(logits, weight(output_table()));
    signal(dnormed);
    Matrix dhidden = norm_derivative(asked.norm, dnormed, x);
    signal(dhidden);
    if (!bert()) return dhidden;
    Matrix dpre = activation_backward(shape, dhidden, pre);
    signal(dpre);
    return linear_derivative("head.dense", dpre, hidden);
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const ParameterSet& weights_;
  const DataSource& data_;
  std::uint64_t step_;
  ReferenceStorage storage_;
  std::uint64_t sequence_ = 0;
  double count_ = 0.0;
  ParameterSet gradients_;
  Matrix embedded_;  // BERT: of the sequence, before the norm
  Matrix patches_;   // ViT
  double auxiliary_ = 0.0;
};

}  // namespace

ReferenceGradients reference_gradients(const ModelSpec& model, const Workload& workload, const ParameterSet& weights,
                                       const DataSource& data, std::uint64_t step,
                                       const std::optional<StorageRounding>& rounding) {
  if (!workload.adapters) return Pass(model, workload, weights, data, step, rounding).run(true);
  const ParameterSet sums = with_adapters(model, *workload.adapters, weights);
  ReferenceGradients result = Pass(model, workload, sums, data, step, rounding).run(true);
  result.gradients = adapter_gradients(model, *workload.adapters, weights, result.gradients);
  return result;
}

double reference_loss(const ModelSpec& model, const Workload& workload, const ParameterSet& weights,
                      const DataSource& data, std::uint64_t step) {
  const auto loss_with = [&](const ParameterSet& all) {
    const ReferenceGradients pass = Pass(model, workload, all, data, step, std::nullopt).run(false);
    return pass.loss + pass.auxiliary;
  };
  return workload.adapters ? loss_with(with_adapters(model, *workload.adapters, weights)) : loss_with(weights);
}

}  // namespace orrery
