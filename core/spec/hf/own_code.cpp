#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Decoders like LLaMA whose hub files name code of their authors, with keys of their own. Their code has no defaults
// that files rely on: released files give every size.
namespace orrery::hf {
namespace {

/// ChatGLM-2 and -3 and GLM-4 before the library had it: half of each head rotates.
constexpr std::array chatglm_keys{
    read("num_layers", "28", "layers"),
    read("hidden_size", "4096", "hidden"),
    read("ffn_hidden_size", "13696", "ffn"),
    read("kv_channels", "128", "head_dim"),
    read("multi_query_attention", "false"),
    read("multi_query_group_num", "1", "kv_heads"),
    read("padded_vocab_size", "65024", "vocabulary"),
    read("seq_length", "2048", "max_positions"),
    read("layernorm_epsilon", "1e-5", "norm_epsilon"),
    read("add_bias_linear", "false"),
    read("add_qkv_bias", "false"),
    read("rope_ratio", "1.0", "rope_theta"),
    only("rmsnorm", "true", "layer norms in place of rms norms"),
    only("apply_residual_connection_post_layernorm", "false", "branches beside the output of their norm"),
    only("post_layer_norm", "true", "a model without a last norm"),
    only("position_encoding_2d", "false", "ChatGLM-6B's layers"),
    only("pre_seq_len", "null", "a prefix in place of the weights"),
    same_as("num_hidden_layers", "num_layers"),
    same_as("vocab_size", "padded_vocab_size"),
    same_as("intermediate_size", "ffn_hidden_size"),
    same_as("max_position_embeddings", "seq_length"),
    no_effect("apply_query_key_layer_scaling"),
    no_effect("attention_softmax_in_fp32"),
    no_effect("fp32_residual_connection"),
    no_effect("bias_dropout_fusion"),
    no_effect("classifier_dropout"),
    no_effect("interleaved_qkv"),
    no_effect("original_rope"),
    no_effect("prefix_projection"),
    no_effect("quantization_bit"),
};

/// Qwen before Qwen2. Half of intermediate_size is the width of its feed-forward layers.
constexpr std::array qwen_keys{
    read("vocab_size", "151936", "vocabulary"),
    read("intermediate_size", "22016", "ffn"),
    read("kv_channels", "128", "head_dim"),
    read("seq_length", "2048"),
    read("max_position_embeddings", "null", "max_positions"),
    read("layer_norm_epsilon", "1e-6", "norm_epsilon"),
    read("rotary_emb_base", "10000.0", "rope_theta"),
    read("no_bias", "true"),
    only("rotary_pct", "1.0", "rotation of a part of each head"),
    only("scale_attn_weights", "true", "attention scores that are not divided by the root of their width"),
    // Both act on sequences that are longer than those that the model was trained for.
    no_effect("use_dynamic_ntk"),
    no_effect("use_logn_attn"),
    no_effect("attn_dropout_prob"),
    no_effect("emb_dropout_prob"),
    no_effect("bf16"),
    no_effect("fp16"),
    no_effect("fp32"),
    no_effect("onnx_safe"),
    no_effect("softmax_in_fp32"),
    no_effect("use_cache_kernel"),
    no_effect("use_cache_quantization"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array biasless_keys{no_effect("attention_bias"), no_effect("mlp_bias")};

constexpr std::array iquest_keys{
    read("vocab_size", "76800", "vocabulary"),
    read("hidden_size", "5120", "hidden"),
    read("intermediate_size", "27648", "ffn"),
    read("num_hidden_layers", "80", "layers"),
    read("num_attention_heads", "40", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    only("clip_qkv", "null", "limits of queries, keys and values"),
    only("use_sliding_window", "false", "layers that see a window of positions"),
    no_effect("sliding_window"),
    no_effect("max_window_layers"),
};

/// HyperCLOVA X: Granite's scales, where the logits' is a factor and not a divisor, and norms behind branches too.
constexpr std::array hyperclovax_keys{
    read("embedding_multiplier", "1.0", "embedding_scale"),
    read("residual_multiplier", "1.0", "residual_scale"),
    read("attention_multiplier", "null", "attention_scale"),
    read("logits_scaling", "1.0", "logit_scale"),
    read("use_post_norm", "true"),
};

ModelSpec llama_alone(Config& c) { return decoder(c); }

ModelSpec chatglm(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = c.whole("num_attention_heads", max_width);
  m.kv_heads = c.flag("multi_query_attention") ? c.whole("multi_query_group_num", max_width) : m.heads;
  m.head_dim = c.whole("kv_channels", max_width);
  m.ffn = c.whole("ffn_hidden_size", max_width);
  m.vocabulary = c.whole("padded_vocab_size", max_vocabulary);
  m.max_positions = c.whole("seq_length", max_sequence);
  m.norm = Norm::rms_norm;
  m.norm_epsilon = c.number("layernorm_epsilon", 0.0, 1.0);
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  m.rope_theta = 10000.0 * c.number("rope_ratio", 1e-3, 1e8);
  m.rotary_dim = m.head_dim / 2;
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const bool all = c.flag("add_bias_linear");
  m.biases = {all || c.flag("add_qkv_bias"), all, all, false};
  return m;
}

ModelSpec qwen(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = m.kv_heads = c.whole("num_attention_heads", max_width);
  m.head_dim = c.whole("kv_channels", max_width);
  m.ffn = std::max<std::uint64_t>(1, c.whole("intermediate_size", 2 * max_width) / 2);
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence, c.whole("seq_length", max_sequence));
  m.norm = Norm::rms_norm;
  m.norm_epsilon = c.number("layer_norm_epsilon", 0.0, 1.0);
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  m.rope_theta = c.number("rotary_emb_base", 1.0, 1e12);
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const bool others = !c.flag("no_bias");
  m.biases = {true, others, others, false};
  return m;
}

/// Orion: LLaMA with layer norms.
ModelSpec orion(Config& c) {
  ModelSpec m = decoder(c);
  m.norm = Norm::layer_norm;
  return m;
}

ModelSpec hyperclovax(Config& c) {
  ModelSpec m = decoder(c);
  m.embedding_scale = c.number("embedding_multiplier", 1e-6, 1e6);
  m.residual_scale = c.number("residual_multiplier", 1e-6, 1e6);
  if (!c.none("attention_multiplier")) m.attention_scale = c.number("attention_multiplier", 1e-6, 1e6);
  m.logit_scale = c.number("logits_scaling", 1e-6, 1e6);
  if (c.flag("use_post_norm")) m.branch_norms = BranchNorms::both;
  return m;
}

}  // namespace

std::vector<Family> own_code_families() {
  const Keys usual = usual_keys(), common = common_keys();
  std::vector<Family> like_llama = with_tables(
      {
          {"Yi", {"YiForCausalLM"}, {biasless_keys}, llama_alone},
          {"xverse", {"XverseForCausalLM"}, {biasless_keys}, llama_alone},
          {"aquila", {"AquilaForCausalLM"}, {biasless_keys}, llama_alone},
          {"skywork", {"SkyworkForCausalLM"}, {biasless_keys}, llama_alone},
          {"orion", {"OrionForCausalLM"}, {biasless_keys}, orion},
          {"iquestcoder", {"IQuestCoderForCausalLM", "LlamaForCausalLM"}, {iquest_keys}, llama_alone},
          {"hyperclovax", {"HyperCLOVAXForCausalLM"}, {hyperclovax_keys}, hyperclovax},
      },
      {usual, rms_keys(), rotary_keys(), common});
  like_llama.push_back(
      {"chatglm", {"ChatGLMForConditionalGeneration", "ChatGLMModel"}, {chatglm_keys, usual, common}, chatglm});
  like_llama.push_back({"qwen", {"QWenLMHeadModel"}, {qwen_keys, usual, common}, qwen});
  return like_llama;
}

}  // namespace orrery::hf
