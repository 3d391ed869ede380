#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Multi-head latent attention, with experts in DeepSeek-V2, V3 and the types that follow them.
namespace orrery::hf {
namespace {

/// DeepSeek-V2 and V3.
constexpr std::array latent_table{
    read("num_key_value_heads", "null", "kv_heads"),
    read("q_lora_rank", "1536"),
    read("kv_lora_rank", "512"),
    read("qk_nope_head_dim", "128"),
    read("qk_rope_head_dim", "64", "latent.rope_dim"),
    read("v_head_dim", "128"),
    read("rms_norm_eps", "1e-6"),
    read("hidden_act", "\"silu\""),
    read("tie_word_embeddings", "false"),
    read("moe_layer_freq", "1"),
    read("num_nextn_predict_layers", "0"),  // the library's class builds none
    same_as("num_mtp_layers", "num_nextn_predict_layers"),
    only("attention_bias", "false", "biases in latent attention"),
    only("mlp_bias", "false", "biases in feed-forward layers"),
    no_effect("head_dim"),  // follow from the widths above
    no_effect("qk_head_dim"),
    no_effect("rope_interleave"),  // the order of features that rotate
    no_effect("is_decoder"),
    no_effect("ep_size"),
    no_effect("output_router_logits"),
    no_effect("aux_loss_alpha"),
    no_effect("seq_aux"),
};

constexpr std::array deepseek_v2_keys{
    read("num_hidden_layers", "32", "layers"),
    read("hidden_size", "4096"),
    read("num_attention_heads", "32", "heads"),
    read("intermediate_size", "11008"),
    read("vocab_size", "102400"),
    read("max_position_embeddings", "2048"),
    read("n_routed_experts", "64", "mixture.experts"),
    read("n_shared_experts", "2"),
    read("num_experts_per_tok", "null", "mixture.per_token"),
    read("moe_intermediate_size", "1407"),
    read("first_k_dense_replace", "0"),
    read("routed_scaling_factor", "1.0"),
    read("topk_method", "\"greedy\""),
    read("n_group", "null"),
    read("topk_group", "null"),
    only("scoring_func", "\"softmax\"", "another score of experts"),
    only("norm_topk_prob", "false", "gates that are divided by their sum, which the library does not do for this type"),
    same_as("num_experts", "n_routed_experts"),
};

constexpr std::array deepseek_v3_table{
    read("num_hidden_layers", "61", "layers"),
    read("hidden_size", "7168"),
    read("num_attention_heads", "128", "heads"),
    read("intermediate_size", "18432"),
    read("vocab_size", "129280"),
    read("max_position_embeddings", "4096"),
    read("n_routed_experts", "256", "mixture.experts"),
    read("n_shared_experts", "1"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("moe_intermediate_size", "2048"),
    read("first_k_dense_replace", "3"),
    read("routed_scaling_factor", "2.5"),
    read("n_group", "8"),
    read("topk_group", "4"),
    only("topk_method", "\"noaux_tc\"", "another choice of experts"),
    only("scoring_func", "\"sigmoid\"", "another score of experts"),
    only("norm_topk_prob", "true", "sigmoid scores that are not divided by their sum"),
    same_as("num_local_experts", "n_routed_experts"),
};

constexpr std::array sarvam_keys{
    read("vocab_size", "262144"),
    read("hidden_size", "4096"),
    read("intermediate_size", "16384"),
    read("num_hidden_layers", "32", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("n_routed_experts", "128", "mixture.experts"),
    read("q_lora_rank", "null"),
    read("first_k_dense_replace", "1"),
    read("n_group", "1"),
    read("topk_group", "1"),
    same_as("num_experts", "n_routed_experts"),
    same_as("num_shared_experts", "n_shared_experts"),
    no_effect("q_head_dim"),
};

constexpr std::array glm4_lite_keys{
    read("num_hidden_layers", "47", "layers"),
    read("hidden_size", "2048", "hidden"),
    read("num_attention_heads", "20", "heads"),
    read("intermediate_size", "10240", "ffn"),
    read("vocab_size", "154880", "vocabulary"),
    read("max_position_embeddings", "202752", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("q_lora_rank", "768"),
    read("qk_nope_head_dim", "192", "head_dim"),
    read("v_head_dim", "256"),
    read("n_routed_experts", "64", "mixture.experts"),
    read("num_experts_per_tok", "4", "mixture.per_token"),
    read("moe_intermediate_size", "1536"),
    read("first_k_dense_replace", "1"),
    read("routed_scaling_factor", "1.8"),
    read("n_group", "1"),
    read("topk_group", "1"),
    no_effect("mlp_layer_types"),  // of first_k_dense_replace
    no_effect("partial_rotary_factor"),
};

constexpr std::array minicpm3_keys{
    read("num_hidden_layers", "62", "layers"),
    read("hidden_size", "2560", "hidden"),
    read("num_attention_heads", "40", "heads"),
    read("intermediate_size", "6400", "ffn"),
    read("vocab_size", "73448", "vocabulary"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("tie_word_embeddings", "true"),
    read("q_lora_rank", "768"),
    read("kv_lora_rank", "256"),
    read("qk_nope_head_dim", "64", "head_dim"),
    read("qk_rope_head_dim", "32", "latent.rope_dim"),
    read("v_head_dim", "null"),
    read("scale_emb", "12", "embedding_scale"),
    read("scale_depth", "1.4"),
    read("dim_model_base", "256"),
};

constexpr std::array youtu_keys{
    read("num_hidden_layers", "32", "layers"),  read("hidden_size", "2048", "hidden"),
    read("num_attention_heads", "16", "heads"), read("intermediate_size", "6144", "ffn"),
    read("vocab_size", "128256", "vocabulary"), read("max_position_embeddings", "131072", "max_positions"),
    read("tie_word_embeddings", "true"),        no_effect("embedding_initializer_range"),
};

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
  l.value_dim = c.whole("v_head_dim", max_width, std::max<std::uint64_t>(1, m.hidden / m.heads));
  m.latent = l;
  m.ffn = c.whole("intermediate_size", max_width);
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence);
  m.norm_epsilon = c.number("rms_norm_eps", 0.0, 1.0);
  read_rope(c, m);
  m.tied_embeddings = c.flag("tie_word_embeddings");
  m.prediction_modules = c.whole_from_zero("num_nextn_predict_layers", max_layers);
  m.norm = Norm::rms_norm;
  m.activation = activation(c, "hidden_act", Gate::with);
  m.biases = {};
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

ModelSpec minicpm3(Config& c) {
  ModelSpec m = latent(c);
  read_minicpm_scales(c, m);
  return m;
}

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

}  // namespace

Keys latent_keys() { return latent_table; }
Keys deepseek_v3_keys() { return deepseek_v3_table; }

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

std::vector<Family> latent_families() {
  const Keys rotary = rotary_keys(), router = router_keys(), common = common_keys();
  const std::vector<Keys> v3{deepseek_v3_keys(), latent_keys(), rotary, router, common};
  return {
      {"deepseek_v2",
       {"DeepseekV2ForCausalLM"},
       {deepseek_v2_keys, latent_keys(), rotary, router, common},
       deepseek_v2},
      {"deepseek_v3", {"DeepseekV3ForCausalLM"}, v3, deepseek_v3},
      {"kimi_k2", {"DeepseekV3ForCausalLM"}, v3, deepseek_v3},
      {"sarvam_mla",
       {"SarvamMLAForCausalLM", "DeepseekV3ForCausalLM"},
       {sarvam_keys, deepseek_v3_keys(), latent_keys(), rotary, router, common},
       deepseek_v3},
      {"glm4_moe_lite",
       {"Glm4MoeLiteForCausalLM"},
       {glm4_lite_keys, deepseek_v3_keys(), latent_keys(), rotary, router, common},
       deepseek_v3},
      {"minicpm3", {"MiniCPM3ForCausalLM"}, {minicpm3_keys, latent_keys(), rotary, common}, minicpm3},
      {"youtu", {"YoutuForCausalLM"}, {youtu_keys, latent_keys(), rotary, common}, latent},
  };
}

}  // namespace orrery::hf
