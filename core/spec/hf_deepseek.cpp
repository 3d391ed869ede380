#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

// DeepSeek-V2 and V3 have latent attention, and experts in every layer from first_k_dense_replace on.
namespace orrery::hf {
namespace {

std::uint32_t count(Config& c, const char* key) { return static_cast<std::uint32_t>(c.whole(key, 4096)); }

ModelSpec latent(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = c.whole("num_attention_heads", max_width);
  m.kv_heads = m.heads;
  if (c.whole("num_key_value_heads", max_width, m.heads) != m.heads && c.good()) {
    c.error("num_key_value_heads", "hf.unsupported", "latent attention has a key and value for every head",
            {"Supported: num_key_value_heads as num_attention_heads."});
  }
  m.head_dim = c.whole("qk_nope_head_dim", max_width);
  LatentAttention l;
  if (!c.none("q_lora_rank")) l.query_rank = c.whole("q_lora_rank", max_width);
  l.kv_rank = c.whole("kv_lora_rank", max_width);
  l.rope_dim = c.whole("qk_rope_head_dim", max_width);
  l.value_dim = c.whole("v_head_dim", max_width);
  m.latent = l;
  m.ffn = c.whole("intermediate_size", max_width);
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence);
  m.norm_epsilon = c.number("rms_norm_eps", 0.0, 1.0);
  read_rope(c, m);
  c.choice("hidden_act", silu_names());
  m.tied_embeddings = c.flag("tie_word_embeddings");
  m.prediction_modules = c.whole_from_zero("num_nextn_predict_layers", max_layers);
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.bias = false;
  return m;
}

/// Widths and places of the experts; empty where all layers are dense.
std::optional<Mixture> experts(Config& c, const ModelSpec& m) {
  Mixture x;
  x.first_dense = c.whole_from_zero("first_k_dense_replace", max_layers);
  if (c.none("n_routed_experts") || x.first_dense >= m.layers) return std::nullopt;
  x.experts = count(c, "n_routed_experts");
  x.per_token = count(c, "num_experts_per_tok");
  x.ffn = c.whole("moe_intermediate_size", max_width);
  x.shared_ffn = c.whole_from_zero("n_shared_experts", 64) * x.ffn;
  // From there on, the layers whose number it divides are mixtures.
  x.every = c.whole("moe_layer_freq", max_layers);
  x.first_dense = (x.first_dense + x.every - 1) / x.every * x.every;
  x.scale = c.number("routed_scaling_factor", 1e-3, 1e3);
  return x;
}

}  // namespace

ModelSpec deepseek_v2(Config& c) {
  ModelSpec m = latent(c);
  m.mixture = experts(c, m);
  if (!m.mixture) return m;
  m.mixture->scores = Mixture::Scores::softmax_all;
  if (c.choice("topk_method", {"greedy", "group_limited_greedy"}) == "group_limited_greedy") {
    m.mixture->groups = count(c, "n_group");
    m.mixture->groups_per_token = count(c, "topk_group");
  }
  return m;
}

ModelSpec deepseek_v3(Config& c) {
  ModelSpec m = latent(c);
  m.mixture = experts(c, m);
  if (!m.mixture) return m;
  m.mixture->scores = Mixture::Scores::sigmoid;
  m.mixture->score_bias = true;
  m.mixture->groups = count(c, "n_group");
  m.mixture->groups_per_token = count(c, "topk_group");
  if (m.mixture->groups > 1) m.mixture->group_score = Mixture::GroupScore::two_best;
  return m;
}

}  // namespace orrery::hf
