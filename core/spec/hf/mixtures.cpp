#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with mixtures of experts whose gates are a softmax, and plain attention.
namespace orrery::hf {
namespace {

constexpr std::array mixtral_keys{
    read("num_key_value_heads", "8", "kv_heads"),
    read("intermediate_size", "14336", "ffn"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("rope_theta", "1000000.0", "rope_theta"),
    read("num_local_experts", "8", "mixture.experts"),
    read("num_experts_per_tok", "2", "mixture.per_token"),
    read("sliding_window", "null"),
    same_as("num_experts", "num_local_experts"),
    only("attention_bias", "false", "biases in attention"),
    only("mlp_bias", "false", "biases in experts"),
};

constexpr std::array phimoe_keys{
    read("vocab_size", "32064", "vocabulary"),
    read("intermediate_size", "6400", "ffn"),
    read("num_local_experts", "16", "mixture.experts"),
    read("attention_bias", "false"),
    read("lm_head_bias", "false"),
    same_as("rms_norm_eps", "layer_norm_eps"),
    no_effect("input_jitter_noise"),
    read("original_max_position_embeddings", "null"),
};

constexpr std::array qwen_moe_keys{
    read("vocab_size", "151936", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("num_hidden_layers", "24", "layers"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("moe_intermediate_size", "768", "mixture.ffn"),
    read("decoder_sparse_step", "1", "mixture.every"),
    read("norm_topk_prob", "false"),
    read("mlp_only_layers", "null"),
    read("use_sliding_window", "false"),
    read("sliding_window", "4096"),
    read("max_window_layers", "28"),
    same_as("num_local_experts", "num_experts"),
    no_effect("mlp_bias"),
};
constexpr std::array qwen2_moe_keys{
    read("intermediate_size", "5632", "ffn"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "16", "kv_heads"),
    read("num_experts", "60", "mixture.experts"),
    read("num_experts_per_tok", "4", "mixture.per_token"),
    read("moe_intermediate_size", "1408", "mixture.ffn"),
    read("shared_expert_intermediate_size", "5632", "mixture.shared_ffn"),
    read("qkv_bias", "true"),
    read("layer_types", "null"),
    no_effect("attention_bias"),
};
constexpr std::array qwen3_moe_keys{
    read("intermediate_size", "6144", "ffn"), read("num_key_value_heads", "4", "kv_heads"),
    read("num_experts", "128", "mixture.experts"),
    no_effect("shared_expert_intermediate_size"),  // its class builds none
};

constexpr std::array mellum_keys{
    read("vocab_size", "98304", "vocabulary"),
    read("hidden_size", "2304", "hidden"),
    read("intermediate_size", "7168", "ffn"),
    read("num_hidden_layers", "28", "layers"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rope_theta", "500000.0", "rope_theta"),
    read("num_experts", "64", "mixture.experts"),
    read("moe_intermediate_size", "896", "mixture.ffn"),
    read("norm_topk_prob", "true"),
    read("sliding_window", "1024"),
    read("layer_types", "null"),
    read("mlp_layer_types", "null"),
    // The library's class builds no prediction modules.
    no_effect("num_nextn_predict_layers"),
    no_effect("num_mtp_layers"),
    no_effect("mtp_layer_types"),
    no_effect("mtp_mlp_layer_types"),
    no_effect("decoder_sparse_step"),
    no_effect("mlp_only_layers"),
    no_effect("use_sliding_window"),
    no_effect("max_window_layers"),
};

constexpr std::array olmoe_keys{
    read("vocab_size", "50304", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "2048", "ffn"),
    read("num_hidden_layers", "16", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("num_experts", "64", "mixture.experts"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("norm_topk_prob", "false"),
    read("clip_qkv", "null", "qkv_clip"),
    same_as("num_local_experts", "num_experts"),
    no_effect("mlp_bias"),
};

constexpr std::array flex_olmo_keys{
    read("vocab_size", "100352", "vocabulary"),
    read("hidden_size", "4096", "hidden"),
    read("intermediate_size", "11008", "ffn"),
    read("num_hidden_layers", "32", "layers"),
    read("num_attention_heads", "32", "heads"),
    read("rms_norm_eps", "1e-6", "norm_epsilon"),
    read("rope_theta", "500000.0", "rope_theta"),
    read("num_experts", "7", "mixture.experts"),
    read("num_experts_per_tok", "5", "mixture.per_token"),
};

constexpr std::array granite_moe_keys{
    read("embedding_multiplier", "1.0", "embedding_scale"),      read("residual_multiplier", "1.0", "residual_scale"),
    read("attention_multiplier", "1.0", "attention_scale"),      read("logits_scaling", "1.0"),
    read("num_local_experts", "8", "mixture.experts"),           read("num_experts_per_tok", "2", "mixture.per_token"),
    read("shared_intermediate_size", "0", "mixture.shared_ffn"), no_effect("mlp_bias"),
};

constexpr std::array dbrx_keys{
    read("vocab_size", "32000", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("num_hidden_layers", "24", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("attn_config.kv_n_heads", "1", "kv_heads"),
    read("attn_config.clip_qkv", "null", "qkv_clip"),
    read("attn_config.rope_theta", "10000.0", "rope_theta"),
    read("ffn_config.ffn_hidden_size", "3584", "mixture.ffn"),
    read("ffn_config.moe_num_experts", "4", "mixture.experts"),
    read("ffn_config.moe_top_k", "1", "mixture.per_token"),
    only("ffn_config.moe_normalize_expert_weights", "1", "gates that are not divided by their sum"),
    only("ffn_config.ffn_act_fn", "{\"name\": \"silu\"}", "another activation"),
    same_as("d_model", "hidden_size"),
    same_as("n_layers", "num_hidden_layers"),
    same_as("n_heads", "num_attention_heads"),
    same_as("max_seq_len", "max_position_embeddings"),
    no_effect("attn_config.attn_pdrop"),
    no_effect("attn_config.model_type"),
    no_effect("ffn_config.model_type"),
    no_effect("ffn_config.moe_jitter_eps"),
    no_effect("ffn_config.moe_loss_weight"),
    no_effect("ffn_config.hidden_size"),
    no_effect("ffn_config.uniform_expert_assignment"),
    no_effect("intermediate_size"),
    no_effect("num_key_value_heads"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("emb_pdrop"),
};

constexpr std::array ernie_moe_keys{
    read("vocab_size", "103424", "vocabulary"),
    read("hidden_size", "2560", "hidden"),
    read("intermediate_size", "12288", "ffn"),
    read("num_hidden_layers", "28", "layers"),
    read("num_attention_heads", "20", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("rope_theta", "500000.0", "rope_theta"),
    read("tie_word_embeddings", "true"),
    read("use_bias", "false"),
    read("moe_num_experts", "64", "mixture.experts"),
    read("moe_k", "6", "mixture.per_token"),
    read("moe_intermediate_size", "1536", "mixture.ffn"),
    read("moe_num_shared_experts", "2"),
    read("moe_layer_start_index", "1", "mixture.first_dense"),
    read("moe_layer_end_index", "-1"),
    read("moe_layer_interval", "1", "mixture.every"),
    same_as("num_experts", "moe_num_experts"),
    same_as("num_experts_per_tok", "moe_k"),
    no_effect("moe_norm_min"),
    no_effect("moe_use_aux_free"),
    no_effect("moe_gate"),
    no_effect("moe_capacity"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array hunyuan_moe_keys{
    read("vocab_size", "290943", "vocabulary"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("num_experts", "1", "mixture.experts"),
    read("moe_topk", "1", "mixture.per_token"),
    read("moe_intermediate_size", "null"),
    only("use_cla", "false", "layers that share keys and values"),
    only("use_qk_norm", "true", "queries and keys without norms"),
    only("use_mixed_mlp_moe", "true", "mixtures without an expert that all tokens visit"),
    same_as("num_experts_per_tok", "moe_topk"),
    same_as("attention_head_dim", "head_dim"),
    no_effect("num_shared_expert"),
    no_effect("mlp_bias"),
    no_effect("moe_layer_num_skipped"),
    no_effect("moe_drop_tokens"),
    no_effect("moe_random_routing_dropped_token"),
    no_effect("capacity_factor"),
    no_effect("group_limited_greedy"),
    no_effect("n_group"),
    no_effect("topk_group"),
    no_effect("norm_topk_prob"),
    no_effect("routed_scaling_factor"),
    no_effect("cla_share_factor"),
    no_effect("norm_type"),
};

constexpr std::array gpt_oss_keys{
    read("vocab_size", "201088", "vocabulary"),
    read("hidden_size", "2880", "hidden"),
    read("intermediate_size", "2880", "ffn"),
    read("num_hidden_layers", "36", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "64", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("rope_theta", "150000.0", "rope_theta"),
    read("attention_bias", "true"),
    read("num_local_experts", "128", "mixture.experts"),
    read("num_experts_per_tok", "4", "mixture.per_token"),
    read("sliding_window", "128"),
    read("layer_types", "null"),
    read("swiglu_limit", "7.0", "gate_limit"),
    same_as("num_experts", "num_local_experts"),
    same_as("experts_per_token", "num_experts_per_tok"),
    no_effect("initial_context_length"),  // of rope_scaling
    no_effect("swiglu_alpha"),
    no_effect("mlp_bias"),
};

/// DeepSeek's first mixture, with plain attention.
constexpr std::array deepseek_keys{
    read("vocab_size", "102400", "vocabulary"),
    read("moe_intermediate_size", "1407", "mixture.ffn"),
    read("n_shared_experts", "null"),
    read("n_routed_experts", "null", "mixture.experts"),
    read("num_experts_per_tok", "null", "mixture.per_token"),
    read("moe_layer_freq", "1"),
    read("first_k_dense_replace", "0", "mixture.first_dense"),
    read("norm_topk_prob", "false"),
    only("scoring_func", "\"softmax\"", "another score of experts"),
    no_effect("mlp_bias"),
};

Mixture::Scores softmax(Config& c) {
  return c.flag("norm_topk_prob") ? Mixture::Scores::softmax_chosen : Mixture::Scores::softmax_all;
}

ModelSpec mixtral(Config& c) {
  ModelSpec m = decoder(c);
  m.mixture = mixture(c, "num_local_experts", "num_experts_per_tok", "intermediate_size");
  read_windows(c, m, every_layer());
  return m;
}

/// Phi-3.5-MoE: layer norms in a model that is otherwise Mixtral's.
ModelSpec phimoe(Config& c) {
  ModelSpec m = mixtral(c);
  m.norm = Norm::layer_norm;
  m.norm_epsilon = c.number("layer_norm_eps", 0.0, 1.0);
  m.biases.head = c.flag("lm_head_bias");
  return m;
}

ModelSpec qwen_moe(Config& c) {
  ModelSpec m = decoder(c);
  m.mixture = mixture(c, "num_experts", "num_experts_per_tok", "moe_intermediate_size");
  m.mixture->scores = softmax(c);
  leave_dense_by_step(c, m);
  return m;
}

ModelSpec qwen2_moe(Config& c) {
  ModelSpec m = qwen_moe(c);
  m.biases = {c.flag("qkv_bias"), false, false, false};
  if (m.mixture) {
    m.mixture->shared_ffn = c.whole_from_zero("shared_expert_intermediate_size", max_width);
    m.mixture->shared_gate = m.mixture->shared_ffn > 0;
  }
  const std::uint64_t last = c.whole_from_zero("max_window_layers", max_layers);
  if (c.flag("use_sliding_window")) read_windows(c, m, [&](std::uint64_t l) { return l % 2 == 0 && l < last; });
  return m;
}

ModelSpec qwen3_moe(Config& c) {
  ModelSpec m = qwen_moe(c);
  m.query_key_norm = QueryKeyNorm::head;
  if (c.flag("use_sliding_window")) read_windows(c, m, every_layer());
  return m;
}

/// Mellum-2: lists say which layers see a window, and which are dense.
ModelSpec mellum(Config& c) {
  ModelSpec m = decoder(c);
  m.query_key_norm = QueryKeyNorm::head;
  m.mixture = mixture(c, "num_experts", "num_experts_per_tok", "moe_intermediate_size");
  m.mixture->scores = softmax(c);
  const std::vector<std::string> kinds = c.texts("mlp_layer_types");
  if (!kinds.empty() && kinds.size() != m.layers && c.good())
    c.error("mlp_layer_types", "hf.range", "mlp_layer_types does not name a kind for each layer");
  leave_dense(m, [&](std::uint64_t l) { return l < kinds.size() && kinds[l] == "dense"; });
  read_windows(c, m, [](std::uint64_t) { return false; });
  if (m.local) m.local->rope_theta = c.none("rope_parameters") ? 10000.0 : local_rope_theta(c, "rope_theta");
  return m;
}

ModelSpec olmoe(Config& c) {
  ModelSpec m = decoder(c);
  m.query_key_norm = QueryKeyNorm::whole;
  m.mixture = mixture(c, "num_experts", "num_experts_per_tok", "intermediate_size");
  m.mixture->scores = softmax(c);
  if (!c.none("clip_qkv")) m.qkv_clip = c.number("clip_qkv", 1e-3, 1e6);
  return m;
}

/// OLMoE's mixtures in OLMo-2's layers.
ModelSpec flex_olmo(Config& c) {
  ModelSpec m = olmoe(c);
  m.branch_norms = BranchNorms::after;
  return m;
}

ModelSpec granite_moe(Config& c) {
  ModelSpec m = decoder(c);
  read_granite_scales(c, m);
  m.mixture = mixture(c, "num_local_experts", "num_experts_per_tok", "intermediate_size");
  m.mixture->shared_ffn = c.whole_from_zero("shared_intermediate_size", max_width);
  return m;
}

ModelSpec dbrx(Config& c) {
  ModelSpec m = decoder(c);
  m.norm_bias = false;
  m.kv_heads = c.whole("attn_config.kv_n_heads", max_width);
  m.rope_theta = c.number("attn_config.rope_theta", 1.0, 1e12);
  if (!c.none("attn_config.clip_qkv")) m.qkv_clip = c.number("attn_config.clip_qkv", 1e-3, 1e6);
  m.mixture = mixture(c, "ffn_config.moe_num_experts", "ffn_config.moe_top_k", "ffn_config.ffn_hidden_size");
  m.ffn = m.mixture->ffn;
  return m;
}

ModelSpec ernie_moe(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = Biases::of_layers(c.flag("use_bias"));
  m.mixture = mixture(c, "moe_num_experts", "moe_k", "moe_intermediate_size");
  m.mixture->expert_bias = m.biases.ffn;
  m.mixture->score_bias = true;
  m.mixture->shared_ffn = c.whole_from_zero("moe_num_shared_experts", 64) * m.mixture->ffn;
  const std::uint64_t first = c.whole_from_zero("moe_layer_start_index", max_layers);
  const nlohmann::json* end = c.find("moe_layer_end_index");
  const bool to_end = end == nullptr || (end->is_number_integer() && *end == -1);
  const std::uint64_t last = to_end ? m.layers - 1 : c.whole_from_zero("moe_layer_end_index", max_layers);
  const std::uint64_t every = c.whole("moe_layer_interval", max_layers);
  leave_dense(m, [&](std::uint64_t l) { return (l + 1) % every != 0 || l < first || l > last; });
  return m;
}

/// One expert more than the routed ones is visited by every token.
ModelSpec hunyuan_moe(Config& c) {
  ModelSpec m = decoder(c);
  m.query_key_norm = QueryKeyNorm::head;
  if (c.whole("num_experts", 4096) < 2) return m;
  m.mixture = mixture(c, "num_experts", "moe_topk",
                      c.none("moe_intermediate_size") ? "intermediate_size" : "moe_intermediate_size");
  m.mixture->shared_ffn = m.ffn;
  return m;
}

ModelSpec gpt_oss(Config& c) {
  ModelSpec m = decoder(c);
  m.sinks = true;
  m.mixture = mixture(c, "num_local_experts", "num_experts_per_tok", "intermediate_size");
  m.mixture->router_bias = m.mixture->expert_bias = true;
  if (!c.none("swiglu_limit")) m.gate_limit = c.number("swiglu_limit", 1e-3, 1e6);
  read_windows(c, m, all_but_one_in(2));
  return m;
}

ModelSpec deepseek(Config& c) {
  ModelSpec m = decoder(c);
  if (c.none("n_routed_experts")) return m;
  m.mixture = mixture(c, "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size");
  m.mixture->scores = softmax(c);
  m.mixture->shared_ffn = c.none("n_shared_experts") ? 0 : c.whole_from_zero("n_shared_experts", 64) * m.mixture->ffn;
  const std::uint64_t first = c.whole_from_zero("first_k_dense_replace", max_layers);
  const std::uint64_t every = c.whole("moe_layer_freq", max_layers);
  leave_dense(m, [&](std::uint64_t l) { return l < first || l % every != 0; });
  return m;
}

}  // namespace

std::vector<Family> mixture_families() {
  const auto family = [](std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                         ModelSpec (*reader)(Config&), Keys norm = rms_keys()) {
    own.insert(own.end(), {usual_keys(), norm, rotary_keys(), router_keys(), common_keys()});
    return Family{type, std::move(classes), std::move(own), reader};
  };
  return {
      family("mixtral", {"MixtralForCausalLM"}, {mixtral_keys}, mixtral),
      family("phimoe", {"PhimoeForCausalLM", "PhiMoEForCausalLM"}, {phimoe_keys, layer_norm_keys(), mixtral_keys},
             phimoe),
      family("qwen2_moe", {"Qwen2MoeForCausalLM"}, {qwen2_moe_keys, qwen_moe_keys}, qwen2_moe),
      family("qwen3_moe", {"Qwen3MoeForCausalLM"}, {qwen3_moe_keys, qwen_moe_keys}, qwen3_moe),
      family("mellum", {"MellumForCausalLM"}, {mellum_keys, qwen_moe_keys}, mellum),
      family("olmoe", {"OlmoeForCausalLM"}, {olmoe_keys}, olmoe),
      family("flex_olmo", {"FlexOlmoForCausalLM"}, {flex_olmo_keys, olmoe_keys}, flex_olmo),
      family("granitemoe", {"GraniteMoeForCausalLM"}, {granite_moe_keys}, granite_moe),
      family("granitemoeshared", {"GraniteMoeSharedForCausalLM"}, {granite_moe_keys}, granite_moe),
      family("dbrx", {"DbrxForCausalLM"}, {dbrx_keys}, dbrx, layer_norm_keys()),
      family("ernie4_5_moe", {"Ernie4_5_MoeForCausalLM"}, {ernie_moe_keys}, ernie_moe),
      family("hunyuan_v1_moe", {"HunYuanMoEV1ForCausalLM"}, {hunyuan_moe_keys}, hunyuan_moe),
      family("gpt_oss", {"GptOssForCausalLM"}, {gpt_oss_keys}, gpt_oss),
      family("deepseek", {"DeepseekForCausalLM"}, {deepseek_keys}, deepseek),
  };
}

}  // namespace orrery::hf
