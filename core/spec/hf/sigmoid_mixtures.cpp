#include <algorithm>
#include <array>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with mixtures of experts whose gates are sigmoids, and plain attention.
namespace orrery::hf {
namespace {

constexpr std::array minimax_keys{
    read("vocab_size", "200064", "vocabulary"),
    read("hidden_size", "3072", "hidden"),
    read("intermediate_size", "1536", "ffn"),
    read("num_hidden_layers", "62", "layers"),
    read("num_attention_heads", "48", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "196608", "max_positions"),
    read("rope_theta", "5000000.0", "rope_theta"),
    read("num_local_experts", "256", "mixture.experts"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("rotary_dim", "64", "rotary_dim"),
    same_as("num_experts", "num_local_experts"),
    only("scoring_func", "\"sigmoid\"", "another score of experts"),
    only("use_qk_norm", "true", "queries and keys without norms"),
    only("qk_norm_type", "\"per_layer\"", "norms of each head"),
    only("use_routing_bias", "true", "experts without biases of choice"),
    only("shared_intermediate_size", "0", "experts that every token visits"),
    // The library's class builds no prediction modules.
    no_effect("use_mtp"),
    no_effect("num_mtp_modules"),
    no_effect("mtp_transformer_layers"),
    no_effect("attn_type_list"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

/// GLM-4.5 and the types that route as it does: sigmoid scores, biases of choice, shared experts, groups.
constexpr std::array glm_moe_keys{
    read("vocab_size", "151552", "vocabulary"),
    read("intermediate_size", "10944", "ffn"),
    read("num_hidden_layers", "46", "layers"),
    read("num_attention_heads", "96", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    read("moe_intermediate_size", "1408", "mixture.ffn"),
    read("n_routed_experts", "128", "mixture.experts"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("n_shared_experts", "1"),
    read("routed_scaling_factor", "1.0", "mixture.scale"),
    read("n_group", "1", "mixture.groups"),
    read("topk_group", "1", "mixture.groups_per_token"),
    read("first_k_dense_replace", "1", "mixture.first_dense"),
    read("use_qk_norm", "false"),
    read("num_nextn_predict_layers", "0", "prediction_modules"),  // the library's class builds none
    only("norm_topk_prob", "true", "sigmoid scores that are not divided by their sum"),
    only("scoring_func", "\"sigmoid\"", "another score of experts"),
    only("topk_method", "\"noaux_tc\"", "another choice of experts"),
    same_as("num_experts", "n_routed_experts"),
    same_as("num_local_experts", "n_routed_experts"),
    same_as("num_mtp_layers", "num_nextn_predict_layers"),
    no_effect("mlp_bias"),
};
constexpr std::array dots_keys{
    read("vocab_size", "152064", "vocabulary"),
    read("hidden_size", "4608", "hidden"),
    read("num_hidden_layers", "62", "layers"),
    read("num_attention_heads", "32", "heads"),
    read("num_key_value_heads", "32", "kv_heads"),
    read("max_position_embeddings", "2048", "max_positions"),
    read("rms_norm_eps", "1e-6", "norm_epsilon"),
    read("partial_rotary_factor", "1.0", "rotary_dim"),
    read("first_k_dense_replace", "0", "mixture.first_dense"),
    read("use_qk_norm", "true"),
    read("sliding_window", "null"),
    read("max_window_layers", "62"),
    read("layer_types", "null"),
};
constexpr std::array solar_keys{
    read("vocab_size", "196608", "vocabulary"),
    read("num_hidden_layers", "48", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("head_dim", "128", "head_dim"),
    read("partial_rotary_factor", "1.0", "rotary_dim"),
    read("moe_intermediate_size", "1280", "mixture.ffn"),
    read("first_k_dense_replace", "0", "mixture.first_dense"),
    no_effect("intermediate_size"),  // of dense layers: there are none
};

constexpr std::array sarvam_keys{
    read("vocab_size", "262144", "vocabulary"),
    read("intermediate_size", "8192", "ffn"),
    read("num_hidden_layers", "19", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("head_dim", "64", "head_dim"),
    read("rms_norm_eps", "1e-6", "norm_epsilon"),
    read("rope_theta", "8000000.0", "rope_theta"),
    read("partial_rotary_factor", "1.0", "rotary_dim"),
    read("moe_intermediate_size", "1024", "mixture.ffn"),
    read("num_experts_per_tok", "6", "mixture.per_token"),
    read("routed_scaling_factor", "2.5", "mixture.scale"),
    read("use_qk_norm", "true"),
    only("score_function", "\"sigmoid\"", "another score of experts"),
    only("moe_router_enable_expert_bias", "true", "experts without biases of choice"),
    only("use_bias", "false", "biases in all products"),
    same_as("num_shared_experts", "n_shared_experts"),
    same_as("use_qkv_bias", "attention_bias"),
};

constexpr std::array llama4_keys{
    read("vocab_size", "202048", "vocabulary"),
    read("hidden_size", "5120", "hidden"),
    read("intermediate_size", "8192", "mixture.ffn"),
    read("intermediate_size_mlp", "16384", "ffn"),
    read("num_hidden_layers", "48", "layers"),
    read("num_attention_heads", "40", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("rope_theta", "500000.0", "rope_theta"),
    read("num_experts_per_tok", "1", "mixture.per_token"),
    read("num_local_experts", "16", "mixture.experts"),
    read("moe_layers", "null"),
    read("interleave_moe_layer_step", "1"),
    read("use_qk_norm", "true"),
    read("no_rope_layers", "null"),
    read("no_rope_layer_interval", "4"),
    read("attention_chunk_size", "8192", "local.size"),
    no_effect("layer_types"),  // of no_rope_layers
    no_effect("for_llm_compressor"),
    // Queries of layers that do not rotate grow with the logarithm of their position.
    no_effect("attn_temperature_tuning"),
    no_effect("attn_scale"),
    no_effect("floor_scale"),
    no_effect("mlp_bias"),
};

ModelSpec minimax(Config& c) {
  ModelSpec m = decoder(c);
  m.query_key_norm = QueryKeyNorm::whole;
  m.rotary_dim = c.whole("rotary_dim", max_width);
  if (m.rotary_dim == m.head_dim) m.rotary_dim = 0;
  m.mixture = mixture(c, "num_local_experts", "num_experts_per_tok", "intermediate_size");
  m.mixture->scores = Mixture::Scores::sigmoid;
  m.mixture->score_bias = true;
  return m;
}

ModelSpec glm_moe(Config& c) {
  ModelSpec m = decoder(c);
  m.biases.out = false;
  if (c.flag("use_qk_norm")) m.query_key_norm = QueryKeyNorm::head;
  m.prediction_modules = c.whole_from_zero("num_nextn_predict_layers", max_layers);
  m.mixture = sigmoid_mixture(c, m);
  return m;
}

ModelSpec dots(Config& c) {
  ModelSpec m = glm_moe(c);
  m.biases.out = m.biases.qkv;
  read_later_windows(c, m);
  return m;
}

ModelSpec solar(Config& c) {
  ModelSpec m = glm_moe(c);
  if (m.mixture) m.ffn = m.mixture->ffn;
  return m;
}

/// Layers that rotate see chunks, and norm their queries and keys; the others see all positions.
ModelSpec llama4(Config& c) {
  ModelSpec m = decoder(c);
  m.mixture = mixture(c, "num_local_experts", "num_experts_per_tok", "intermediate_size");
  m.mixture->shared_ffn = m.mixture->ffn;
  m.mixture->scores = Mixture::Scores::sigmoid;
  m.ffn = c.whole("intermediate_size_mlp", max_width);
  if (c.flag("use_qk_norm")) m.query_key_norm = QueryKeyNorm::unweighted;
  const std::uint64_t step = c.whole("interleave_moe_layer_step", max_layers);
  const std::vector<std::uint64_t> listed = c.wholes("moe_layers", max_layers);
  leave_dense(m, [&](std::uint64_t l) {
    return listed.empty() ? (l + 1) % step != 0 : std::find(listed.begin(), listed.end(), l) == listed.end();
  });
  read_unrotated(c, m);
  if (!c.good() || c.none("attention_chunk_size")) return m;
  LocalAttention local;
  local.span = LocalAttention::Span::chunk;
  local.size = c.whole("attention_chunk_size", max_sequence);
  local.global = m.unrotated;
  m.local = local;
  return m;
}

}  // namespace

std::vector<Family> sigmoid_mixture_families() {
  return with_tables(
      {
          {"minimax_m2", {"MiniMaxM2ForCausalLM"}, {minimax_keys}, minimax},
          {"glm4_moe", {"Glm4MoeForCausalLM"}, {glm_moe_keys}, glm_moe},
          {"dots1", {"Dots1ForCausalLM"}, {dots_keys, glm_moe_keys}, dots},
          {"solar_open", {"SolarOpenForCausalLM"}, {solar_keys, glm_moe_keys}, solar},
          {"sarvam_moe", {"SarvamMoEForCausalLM", "Glm4MoeForCausalLM"}, {sarvam_keys, glm_moe_keys}, glm_moe},
          {"llama4_text", {"Llama4ForCausalLM"}, {llama4_keys}, llama4},
      },
      {usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
