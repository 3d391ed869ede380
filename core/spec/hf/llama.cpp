#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// LLaMA and the types whose layers are like its: rms norms before each branch, rotary positions, a gate.
namespace orrery::hf {
namespace {

constexpr std::array mistral_keys{
    read("vocab_size", "32000", "vocabulary"),
    read("intermediate_size", "14336", "ffn"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("sliding_window", "4096"),
    read("layer_types", "null"),
    no_effect("attention_bias"),  // its class has none
    no_effect("mlp_bias"),
};

/// Ministral-3, whose queries grow with the position by less than a tenth of their size.
constexpr std::array ministral3_keys{
    read("vocab_size", "131072", "vocabulary"),
    read("hidden_size", "4096", "hidden"),
    read("intermediate_size", "14336", "ffn"),
    read("num_hidden_layers", "34", "layers"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "262144", "max_positions"),
    read("sliding_window", "null"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array qwen2_keys{
    read("vocab_size", "151936", "vocabulary"),
    read("intermediate_size", "22016", "ffn"),
    read("num_key_value_heads", "32", "kv_heads"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("use_sliding_window", "false"),
    read("sliding_window", "4096"),
    read("max_window_layers", "28"),
    read("layer_types", "null"),
    read("num_nextn_predict_layers", "null", "prediction_modules"),  // MiMo
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("use_mrope"),
};

constexpr std::array qwen3_keys{
    read("attention_bias", "false"),
    read("head_dim", "128", "head_dim"),
};

constexpr std::array phi3_keys{
    read("vocab_size", "32064", "vocabulary"),
    read("hidden_size", "3072", "hidden"),
    read("intermediate_size", "8192", "ffn"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("sliding_window", "null"),
    read("original_max_position_embeddings", "null"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array seed_oss_keys{
    read("vocab_size", "155136", "vocabulary"),
    read("intermediate_size", "27648", "ffn"),
    read("num_hidden_layers", "64", "layers"),
    read("num_attention_heads", "80", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "524288", "max_positions"),
    read("attention_bias", "true"),
    read("attention_out_bias", "false"),
};

/// InternLM and its successors.
constexpr std::array internlm_keys{
    read("bias", "null"),        read("qkv_bias", "null"), no_effect("attn_implementation"),
    no_effect("attention_bias"), no_effect("mlp_bias"),
};

constexpr std::array internlm3_keys{
    read("vocab_size", "128512", "vocabulary"),
    read("intermediate_size", "10240", "ffn"),
    read("num_hidden_layers", "48", "layers"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    same_as("attention_bias", "qkv_bias"),
    same_as("mlp_bias", "bias"),
};

constexpr std::array ernie_keys{
    read("vocab_size", "103424", "vocabulary"),
    read("hidden_size", "1024", "hidden"),
    read("intermediate_size", "3072", "ffn"),
    read("num_hidden_layers", "18", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("rope_theta", "500000.0", "rope_theta"),
    read("tie_word_embeddings", "true"),
    read("use_bias", "false"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array hunyuan_keys{
    read("vocab_size", "290943", "vocabulary"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    only("use_cla", "false", "layers that share keys and values"),
    only("use_qk_norm", "true", "queries and keys without norms"),
    same_as("attention_head_dim", "head_dim"),
    no_effect("mlp_bias"),
    no_effect("cla_share_factor"),
    no_effect("norm_type"),
};

constexpr std::array smollm3_keys{
    read("vocab_size", "128256", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("num_hidden_layers", "36", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("rope_theta", "2000000.0", "rope_theta"),
    read("tie_word_embeddings", "true"),
    read("no_rope_layers", "null"),
    read("no_rope_layer_interval", "4"),
    read("sliding_window", "null"),
    only("use_sliding_window", "false", "layers that see a window of positions"),
    no_effect("layer_types"),  // of the windows
    no_effect("max_window_layers"),
};

constexpr std::array olmo_keys{
    read("vocab_size", "50304", "vocabulary"),
    read("clip_qkv", "null", "qkv_clip"),
    no_effect("mlp_bias"),
};
constexpr std::array olmo_window_keys{
    read("sliding_window", "4096"),
    read("layer_types", "null"),
};

constexpr std::array exaone4_keys{
    read("vocab_size", "102400", "vocabulary"),
    read("intermediate_size", "16384", "ffn"),
    read("num_key_value_heads", "32", "kv_heads"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("sliding_window", "4096"),
    read("sliding_window_pattern", "4"),
    read("layer_types", "null"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

/// EXAONE 3 calls its keys as GPT-2's successors do.
constexpr std::array exaone_keys{
    read("vocab_size", "102400", "vocabulary"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    same_as("num_layers", "num_hidden_layers"),
    same_as("activation_function", "hidden_act"),
    same_as("layer_norm_epsilon", "rms_norm_eps"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("embed_dropout"),
};

constexpr std::array granite_keys{
    read("embedding_multiplier", "1.0", "embedding_scale"),
    read("residual_multiplier", "1.0", "residual_scale"),
    read("attention_multiplier", "1.0", "attention_scale"),
    read("logits_scaling", "1.0"),
};

constexpr std::array minicpm_keys{
    read("hidden_size", "4096", "hidden"), read("scale_emb", "1", "embedding_scale"), read("scale_depth", "1"),
    read("dim_model_base", "1"),           read("tie_word_embeddings", "true"),       no_effect("mlp_bias"),
};

constexpr std::array glm_keys{
    read("vocab_size", "151552", "vocabulary"),
    read("intermediate_size", "13696", "ffn"),
    read("num_hidden_layers", "40", "layers"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1.5625e-07", "norm_epsilon"),
    read("attention_bias", "true"),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    no_effect("mlp_bias"),
};

constexpr std::array arcee_keys{
    read("intermediate_size", "18432", "ffn"),
    read("hidden_size", "2560", "hidden"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("hidden_act", "\"relu2\""),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
};

constexpr std::array nanochat_keys{
    read("vocab_size", "50304", "vocabulary"),
    read("hidden_size", "768", "hidden"),
    read("intermediate_size", "8192", "ffn"),
    read("num_hidden_layers", "12", "layers"),
    read("num_attention_heads", "6", "heads"),
    read("hidden_act", "\"relu2\""),
    read("final_logit_softcapping", "15.0", "logit_softcap"),
    no_effect("mlp_bias"),
};

constexpr std::array helium_keys{
    read("vocab_size", "48000", "vocabulary"),    read("hidden_size", "2560", "hidden"),
    read("intermediate_size", "7040", "ffn"),     read("num_hidden_layers", "24", "layers"),
    read("num_attention_heads", "20", "heads"),   read("num_key_value_heads", "20", "kv_heads"),
    read("head_dim", "128", "head_dim"),          read("max_position_embeddings", "4096", "max_positions"),
    read("rms_norm_eps", "1e-8", "norm_epsilon"),
};

constexpr std::array cwm_keys{
    read("vocab_size", "128256", "vocabulary"),
    read("hidden_size", "6144", "hidden"),
    read("intermediate_size", "21504", "ffn"),
    read("num_hidden_layers", "64", "layers"),
    read("num_attention_heads", "48", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("sliding_window", "8192"),
    read("layer_types", "null"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array baichuan_keys{
    read("vocab_size", "64000", "vocabulary"),
    same_as("model_max_length", "max_position_embeddings"),
    only("z_loss_weight", "0", "another loss"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

ModelSpec llama(Config& c) { return decoder(c); }

ModelSpec mistral(Config& c) {
  ModelSpec m = decoder(c);
  read_windows(c, m, every_layer());
  return m;
}

ModelSpec qwen2(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = {true, false, false, false};
  if (c.flag("use_sliding_window")) read_later_windows(c, m);
  m.prediction_modules = c.whole_from_zero("num_nextn_predict_layers", max_layers);
  return m;
}

ModelSpec qwen3(Config& c) {
  ModelSpec m = qwen2(c);
  const bool biased = c.flag("attention_bias");
  m.biases = {biased, biased, false, false};
  m.query_key_norm = QueryKeyNorm::head;
  return m;
}

ModelSpec seed_oss(Config& c) {
  ModelSpec m = decoder(c);
  m.biases.out = c.flag("attention_out_bias");
  return m;
}

ModelSpec internlm(Config& c) {
  ModelSpec m = decoder(c);
  const bool bias = !c.none("bias") && c.flag("bias");
  m.biases = {c.none("qkv_bias") ? bias : c.flag("qkv_bias"), bias, false, false};
  return m;
}

ModelSpec internlm3(Config& c) {
  ModelSpec m = internlm(c);
  m.biases.ffn = m.biases.out;
  return m;
}

ModelSpec ernie(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = Biases::of_layers(c.flag("use_bias"));
  return m;
}

ModelSpec hunyuan(Config& c) {
  ModelSpec m = decoder(c);
  m.query_key_norm = QueryKeyNorm::head;
  return m;
}

ModelSpec smollm3(Config& c) {
  ModelSpec m = decoder(c);
  read_unrotated(c, m);
  return m;
}

ModelSpec olmo(Config& c) {
  ModelSpec m = decoder(c);
  m.norm = Norm::layer_norm;
  m.norm_weight = m.norm_bias = false;
  if (!c.none("clip_qkv")) m.qkv_clip = c.number("clip_qkv", 1e-3, 1e6);
  return m;
}

ModelSpec olmo2(Config& c) {
  ModelSpec m = decoder(c);
  m.branch_norms = BranchNorms::after;
  m.query_key_norm = QueryKeyNorm::whole;
  return m;
}

ModelSpec olmo3(Config& c) {
  ModelSpec m = olmo2(c);
  read_windows(c, m, all_but_one_in(4));
  return m;
}

/// Layers that see all positions do not rotate, where others see a window.
ModelSpec exaone4(Config& c) {
  ModelSpec m = decoder(c);
  m.branch_norms = BranchNorms::after;
  m.query_key_norm = QueryKeyNorm::head;
  const nlohmann::json* pattern = c.find("sliding_window_pattern");
  // As a number, or as a text with a letter for each layer of a period: "LLLG".
  std::uint64_t several = 4;
  if (pattern != nullptr && pattern->is_string()) {
    several = pattern->get_ref<const std::string&>().size();
  } else if (pattern != nullptr) {
    several = c.whole_from_zero("sliding_window_pattern", max_layers);
  }
  read_windows(c, m, all_but_one_in(several));
  if (m.local) m.unrotated = m.local->global;
  return m;
}

ModelSpec granite(Config& c) {
  ModelSpec m = decoder(c);
  read_granite_scales(c, m);
  return m;
}

/// Branches shrink with the depth, logits with the width.
ModelSpec minicpm(Config& c) {
  ModelSpec m = decoder(c);
  read_minicpm_scales(c, m);
  return m;
}

ModelSpec glm(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = {c.flag("attention_bias"), false, false, false};
  return m;
}

ModelSpec glm4(Config& c) {
  ModelSpec m = glm(c);
  m.branch_norms = BranchNorms::both;
  return m;
}

ModelSpec arcee(Config& c) { return decoder(c, Gate::without); }

ModelSpec nanochat(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.norm_weight = false;
  m.query_key_norm = QueryKeyNorm::unweighted;
  if (!c.none("final_logit_softcapping")) m.logit_softcap = c.number("final_logit_softcapping", 1e-3, 1e6);
  return m;
}

ModelSpec cwm(Config& c) {
  ModelSpec m = decoder(c);
  read_windows(c, m, [](std::uint64_t layer) { return layer % 4 != 0; });
  return m;
}

/// The type says nothing of positions: the 7B rotates, and the 13B, with 40 heads, has ALiBi.
ModelSpec baichuan(Config& c) {
  ModelSpec m = decoder(c);
  if (m.heads == 40) m.positions = PositionEncoding::alibi;
  return m;
}

}  // namespace

void read_granite_scales(Config& c, ModelSpec& m) {
  m.embedding_scale = c.number("embedding_multiplier", 1e-6, 1e6);
  m.residual_scale = c.number("residual_multiplier", 1e-6, 1e6);
  m.attention_scale = c.number("attention_multiplier", 1e-6, 1e6);
  m.logit_scale = 1.0 / c.number("logits_scaling", 1e-6, 1e6);
}

void read_minicpm_scales(Config& c, ModelSpec& m) {
  m.embedding_scale = c.number("scale_emb", 1e-6, 1e6);
  m.residual_scale = c.number("scale_depth", 1e-6, 1e6) / std::sqrt(static_cast<double>(m.layers));
  const auto base = static_cast<double>(c.whole("dim_model_base", max_width));
  if (base > 1.0) m.logit_scale = base / static_cast<double>(m.hidden);
}

std::vector<Family> llama_families() {
  const auto like_llama = [](std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                             ModelSpec (*reader)(Config&)) {
    own.insert(own.end(), {usual_keys(), rms_keys(), rotary_keys(), common_keys()});
    return Family{type, std::move(classes), std::move(own), reader};
  };
  return {
      like_llama("llama", {"LlamaForCausalLM", "LLaMAForCausalLM"}, {}, llama),
      like_llama("mistral", {"MistralForCausalLM"}, {mistral_keys}, mistral),
      like_llama("ministral", {"MinistralForCausalLM"}, {mistral_keys}, mistral),
      like_llama("ministral3", {"Ministral3ForCausalLM"}, {ministral3_keys}, llama),
      like_llama("qwen2", {"Qwen2ForCausalLM"}, {qwen2_keys}, qwen2),
      like_llama("mimo", {"MiMoForCausalLM"}, {qwen2_keys}, qwen2),
      like_llama("qwen3", {"Qwen3ForCausalLM"}, {qwen3_keys, qwen2_keys}, qwen3),
      like_llama("phi3", {"Phi3ForCausalLM"}, {phi3_keys}, mistral),
      like_llama("seed_oss", {"SeedOssForCausalLM"}, {seed_oss_keys}, seed_oss),
      like_llama("internlm", {"InternLMForCausalLM"}, {internlm_keys}, internlm),
      like_llama("internlm2", {"InternLM2ForCausalLM"}, {internlm_keys}, internlm),
      like_llama("internlm3", {"InternLM3ForCausalLM"}, {internlm3_keys, internlm_keys}, internlm3),
      like_llama("ernie4_5", {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"}, {ernie_keys}, ernie),
      like_llama("hunyuan_v1_dense", {"HunYuanDenseV1ForCausalLM"}, {hunyuan_keys}, hunyuan),
      like_llama("smollm3", {"SmolLM3ForCausalLM"}, {smollm3_keys}, smollm3),
      like_llama("olmo", {"OlmoForCausalLM"}, {olmo_keys}, olmo),
      like_llama("olmo2", {"Olmo2ForCausalLM"}, {olmo_keys}, olmo2),
      like_llama("olmo3", {"Olmo3ForCausalLM"}, {olmo_window_keys, olmo_keys}, olmo3),
      like_llama("exaone", {"ExaoneForCausalLM"}, {exaone_keys}, llama),
      like_llama("exaone4", {"Exaone4ForCausalLM"}, {exaone4_keys}, exaone4),
      like_llama("granite", {"GraniteForCausalLM"}, {granite_keys}, granite),
      like_llama("minicpm", {"MiniCPMForCausalLM"}, {minicpm_keys}, minicpm),
      like_llama("glm", {"GlmForCausalLM"}, {glm_keys}, glm),
      like_llama("glm4", {"Glm4ForCausalLM"}, {glm_keys}, glm4),
      like_llama("arcee", {"ArceeForCausalLM"}, {arcee_keys}, arcee),
      like_llama("nanochat", {"NanoChatForCausalLM"}, {nanochat_keys}, nanochat),
      like_llama("helium", {"HeliumForCausalLM"}, {helium_keys}, llama),
      like_llama("cwm", {"CwmForCausalLM"}, {cwm_keys}, cwm),
      like_llama("baichuan", {"BaichuanForCausalLM", "BaiChuanForCausalLM"}, {baichuan_keys}, baichuan),
  };
}

}  // namespace orrery::hf
