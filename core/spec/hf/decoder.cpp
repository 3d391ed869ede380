#include "core/spec/hf/decoder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/spec_check.hpp"

namespace orrery::hf {

Activation activation(Config& c, const char* key, Gate gate) {
  static const std::vector<std::string> gated{"silu",      "swish",       "gelu",      "gelu_new", "gelu_pytorch_tanh",
                                              "gelu_fast", "gelu_python", "gelu_tanh", "swiglu"};
  static const std::vector<std::string> plain{
      "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python", "gelu_tanh",
      "relu", "relu2",    "relu_squared",      "quick_gelu"};
  const std::string name = c.choice(key, gate == Gate::with ? gated : plain);
  if (gate == Gate::with) return name.starts_with("gelu") ? Activation::geglu : Activation::swiglu;
  if (name == "quick_gelu") return Activation::quick_gelu;
  return name == "relu" ? Activation::relu : name.starts_with("relu") ? Activation::squared_relu : Activation::gelu;
}

ModelSpec decoder(Config& c, Gate gate) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = c.whole("num_attention_heads", max_width);
  m.kv_heads = c.none("num_key_value_heads") ? m.heads : c.whole("num_key_value_heads", max_width);
  if (c.none("head_dim")) heads_divide(c, m, "num_attention_heads", "hidden_size");
  m.head_dim = c.whole("head_dim", max_width, std::max<std::uint64_t>(1, m.hidden / m.heads));
  m.ffn = c.whole("intermediate_size", max_width, std::min(max_width, 4 * m.hidden));
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence);
  m.norm = c.knows("rms_norm_eps") ? Norm::rms_norm : Norm::layer_norm;
  m.norm_epsilon = c.number(m.norm == Norm::rms_norm ? "rms_norm_eps" : "layer_norm_eps", 0.0, 1.0);
  if (c.knows("rope_theta")) read_rope(c, m);
  m.activation = activation(c, "hidden_act", gate);
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const bool attention = c.flag("attention_bias");
  m.biases = {attention, attention, c.flag("mlp_bias"), false};
  return m;
}

void read_windows(Config& c, ModelSpec& m, const std::function<bool(std::uint64_t)>& is_local, const char* width) {
  if (!c.good() || c.none(width)) return;
  const std::uint64_t size = c.whole_from_zero(width, max_sequence);
  std::vector<bool> global(m.layers);
  for (std::uint64_t l = 0; l < m.layers; ++l) global[l] = !is_local(l);
  const std::vector<std::string> types = c.knows("layer_types") ? c.texts("layer_types") : std::vector<std::string>{};
  if (!types.empty()) {
    if (types.size() != m.layers && c.good()) {
      c.error("layer_types", "hf.range", "layer_types does not name a kind for each layer",
              {fmt::format("It has {} names; the model has {} layers.", types.size(), m.layers)});
    }
    static const std::vector<std::string> known{"full_attention", "sliding_attention"};
    for (std::uint64_t l = 0; l < std::min<std::uint64_t>(types.size(), m.layers); ++l) {
      global[l] = types[l] == known[0];
      if (types[l] == known[0] || types[l] == known[1] || !c.good()) continue;
      c.error("layer_types", "hf.unsupported", fmt::format("layers of the kind {} are not supported", types[l]),
              {fmt::format("Supported: {}.", fmt::join(known, ", "))});
    }
  }
  if (size == 0 || std::find(global.begin(), global.end(), false) == global.end()) return;
  LocalAttention local;
  local.size = size;
  local.global = LayerPattern::of(global);
  m.local = local;
}

std::function<bool(std::uint64_t)> every_layer() {
  return [](std::uint64_t) { return true; };
}

std::function<bool(std::uint64_t)> all_but_one_in(std::uint64_t several) {
  return [several](std::uint64_t layer) { return several == 0 || (layer + 1) % several != 0; };
}

void read_later_windows(Config& c, ModelSpec& m) {
  const std::uint64_t first = c.whole_from_zero("max_window_layers", max_layers);
  read_windows(c, m, [&](std::uint64_t layer) { return layer >= first; });
}

void read_unrotated(Config& c, ModelSpec& m) {
  const std::vector<std::uint64_t> rotating = c.wholes("no_rope_layers", 1);  // 1: the layer rotates
  if (!rotating.empty() && rotating.size() != m.layers && c.good()) {
    c.error("no_rope_layers", "hf.range", "no_rope_layers does not have a number for each layer");
  }
  if (!c.good()) return;
  const auto rotates = all_but_one_in(c.whole_from_zero("no_rope_layer_interval", max_layers));
  std::vector<bool> unrotated(m.layers);
  for (std::uint64_t l = 0; l < m.layers; ++l) unrotated[l] = rotating.empty() ? !rotates(l) : rotating[l] == 0;
  m.unrotated = LayerPattern::of(unrotated);
}

Mixture mixture(Config& c, const char* experts, const char* per_token, const char* width) {
  Mixture x;
  x.experts = static_cast<std::uint32_t>(c.whole(experts, 4096));
  x.per_token = static_cast<std::uint32_t>(c.whole(per_token, 4096));
  x.ffn = c.whole(width, max_width);
  return x;
}

void leave_dense(ModelSpec& m, const std::function<bool(std::uint64_t)>& is_dense) {
  if (!m.mixture) return;
  std::vector<std::uint64_t> mixtures;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    if (!is_dense(l)) mixtures.push_back(l);
  }
  if (mixtures.empty()) {
    m.mixture.reset();
    return;
  }
  // The shortest form: the first, the distance to the second, and what is left out from there on.
  Mixture& x = *m.mixture;
  x.first_dense = mixtures.front();
  x.every = mixtures.size() > 1 ? mixtures[1] - mixtures[0] : 1;
  x.dense.clear();
  const auto regular = [&](std::uint64_t l) { return l >= x.first_dense && (l - x.first_dense) % x.every == 0; };
  for (const std::uint64_t l : mixtures) {
    if (!regular(l)) x.every = 1;
  }
  for (std::uint64_t l = x.first_dense; l < m.layers; ++l) {
    if (regular(l) && is_dense(l)) x.dense.push_back(static_cast<std::uint32_t>(l));
  }
}

void leave_dense_by_step(Config& c, ModelSpec& m) {
  const std::uint64_t every = c.whole("decoder_sparse_step", max_layers);
  const std::vector<std::uint64_t> dense = c.wholes("mlp_only_layers", max_layers);
  leave_dense(m, [&](std::uint64_t l) {
    return (l + 1) % every != 0 || std::find(dense.begin(), dense.end(), l) != dense.end();
  });
}

std::optional<Mixture> sigmoid_mixture(Config& c, const ModelSpec& m) {
  const std::uint64_t dense = c.whole_from_zero("first_k_dense_replace", max_layers);
  if (c.none("n_routed_experts") || dense >= m.layers) return std::nullopt;
  Mixture x = mixture(c, "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size");
  x.first_dense = dense;
  x.shared_ffn = c.whole_from_zero("n_shared_experts", 64) * x.ffn;
  x.scores = Mixture::Scores::sigmoid;
  x.score_bias = true;
  x.scale = c.number("routed_scaling_factor", 1e-3, 1e3);
  x.groups = static_cast<std::uint32_t>(c.whole("n_group", 4096));
  x.groups_per_token = static_cast<std::uint32_t>(c.whole("topk_group", 4096));
  if (x.groups > 1) x.group_score = Mixture::GroupScore::two_best;
  return x;
}

void only_counted(ModelSpec& m, std::uint64_t more, std::string because) {
  const std::uint64_t all = published_parameter_count(m), active = active_parameter_count(m);
  m.counted = CountedOnly{all + more, active < parameter_count(m) ? active + more : 0, std::move(because)};
}

}  // namespace orrery::hf
