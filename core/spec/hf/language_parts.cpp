#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Language models that stand inside models of text and images, where their types have other defaults than the types of
// the same layers alone.
namespace orrery::hf {
namespace {

constexpr std::array qwen2_vl_keys{
    read("vocab_size", "152064", "vocabulary"),
    read("hidden_size", "8192", "hidden"),
    read("intermediate_size", "29568", "ffn"),
    read("num_hidden_layers", "80", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("use_sliding_window", "false"),
    read("sliding_window", "4096"),
    read("max_window_layers", "80"),
    read("layer_types", "null"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};
constexpr std::array qwen3_vl_keys{
    read("vocab_size", "151936", "vocabulary"),
    read("intermediate_size", "22016", "ffn"),
    read("num_key_value_heads", "32", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "128000", "max_positions"),
    no_effect("mlp_bias"),
};
constexpr std::array qwen3_vl_moe_keys{
    read("vocab_size", "151936", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "5632", "ffn"),
    read("num_hidden_layers", "24", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "16", "kv_heads"),
    read("head_dim", "null", "head_dim"),
    read("max_position_embeddings", "128000", "max_positions"),
    read("decoder_sparse_step", "1", "mixture.every"),
    read("moe_intermediate_size", "1408", "mixture.ffn"),
    read("num_experts_per_tok", "4", "mixture.per_token"),
    read("num_experts", "60", "mixture.experts"),
    read("mlp_only_layers", "null"),
    only("norm_topk_prob", "true", "gates that are not divided by their sum"),
    same_as("num_local_experts", "num_experts"),
    no_effect("mlp_bias"),
};
constexpr std::array glm4v_keys{
    read("vocab_size", "151552", "vocabulary"),
    read("intermediate_size", "13696", "ffn"),
    read("num_hidden_layers", "40", "layers"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    no_effect("attention_bias"),  // its class has biases of queries, keys and values
    no_effect("mlp_bias"),
};
constexpr std::array glm4v_moe_keys{
    read("vocab_size", "151424", "vocabulary"),
    read("intermediate_size", "10944", "ffn"),
    read("num_hidden_layers", "46", "layers"),
    read("num_attention_heads", "96", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "null", "head_dim"),
    read("max_position_embeddings", "65536", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    read("attention_bias", "true"),
    read("moe_intermediate_size", "1408", "mixture.ffn"),
    read("n_routed_experts", "128", "mixture.experts"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("n_shared_experts", "1"),
    read("routed_scaling_factor", "1.0", "mixture.scale"),
    read("n_group", "1", "mixture.groups"),
    read("topk_group", "1", "mixture.groups_per_token"),
    read("first_k_dense_replace", "1", "mixture.first_dense"),
    only("use_qk_norm", "false", "norms of queries and keys"),
    only("norm_topk_prob", "true", "sigmoid scores that are not divided by their sum"),
    same_as("num_local_experts", "n_routed_experts"),
    no_effect("num_nextn_predict_layers"),
    no_effect("mlp_bias"),
};
constexpr std::array mllama_keys{
    read("vocab_size", "128256", "vocabulary"),
    read("intermediate_size", "14336", "ffn"),
    read("num_hidden_layers", "40", "layers"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("cross_attention_layers", "[3, 8, 13, 18, 23, 28, 33, 38]"),
    no_effect("dropout"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

ModelSpec qwen2_vl(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = {true, false, false, false};
  if (c.flag("use_sliding_window")) read_later_windows(c, m);
  return m;
}

ModelSpec qwen3_vl(Config& c) {
  ModelSpec m = decoder(c);
  m.query_key_norm = QueryKeyNorm::head;
  return m;
}

ModelSpec qwen3_vl_moe(Config& c) {
  ModelSpec m = qwen3_vl(c);
  m.mixture = mixture(c, "num_experts", "num_experts_per_tok", "moe_intermediate_size");
  leave_dense_by_step(c, m);
  return m;
}

ModelSpec glm4v(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = {true, false, false, false};
  m.branch_norms = BranchNorms::both;
  return m;
}

ModelSpec glm4v_moe(Config& c) {
  ModelSpec m = decoder(c);
  m.biases.out = false;
  m.mixture = sigmoid_mixture(c, m);
  return m;
}

/// Some layers attend to the image in place of the text: they have a norm of d for queries and one for keys, and a gate
/// of one weight for each part. The table has 8 more rows than the head, which is never tied to it.
ModelSpec mllama(Config& c) {
  ModelSpec m = decoder(c);
  m.tied_embeddings = false;
  const std::vector<std::uint64_t> crossed = c.wholes("cross_attention_layers", max_layers);
  const auto within = [&](std::uint64_t layer) { return layer < m.layers; };
  const auto crossings = static_cast<std::uint64_t>(std::count_if(crossed.begin(), crossed.end(), within));
  constexpr std::uint64_t image_tokens = 8;
  only_counted(m, crossings * (2 * m.head_dim + 2) + image_tokens * m.hidden, "layers that attend to images");
  return m;
}

}  // namespace

std::vector<Keys> qwen2_vl_text_tables() { return {qwen2_vl_keys, usual_keys(), rms_keys(), rotary_keys()}; }

std::vector<Family> language_part_families() {
  return with_tables(
      {
          {"qwen2_vl_text", {"Qwen2VLTextForCausalLM"}, {qwen2_vl_keys}, qwen2_vl},
          {"qwen2_5_vl_text", {"Qwen2_5_VLTextForCausalLM"}, {qwen2_vl_keys}, qwen2_vl},
          {"qwen3_vl_text", {"Qwen3VLTextForCausalLM"}, {qwen3_vl_keys}, qwen3_vl},
          {"qwen3_vl_moe_text", {"Qwen3VLMoeTextForCausalLM"}, {qwen3_vl_moe_keys}, qwen3_vl_moe},
          {"glm4v_text", {"Glm4vTextForCausalLM"}, {glm4v_keys}, glm4v},
          {"glm4v_moe_text", {"Glm4vMoeTextForCausalLM"}, {glm4v_moe_keys}, glm4v_moe},
          {"mllama_text_model", {"MllamaForCausalLM"}, {mllama_keys}, mllama},
      },
      {usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
