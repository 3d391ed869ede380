#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// GPT-2 and the types whose layers follow it: layer norms before each branch, one after the other, and no gate.
namespace orrery::hf {
namespace {

constexpr std::array gpt2_keys{read("add_cross_attention", "false")};
/// GPT-2 and those that took its names over.
constexpr std::array gpt_keys{
    read("n_layer", "12", "layers"),
    read("n_embd", "768", "hidden"),
    read("n_head", "12", "heads"),
    read("n_inner", "null", "ffn"),
    read("vocab_size", "50257", "vocabulary"),
    read("n_positions", "1024", "max_positions"),
    read("layer_norm_epsilon", "1e-5", "norm_epsilon"),
    read("activation_function", "\"gelu_new\""),
    read("tie_word_embeddings", "true"),
    only("scale_attn_weights", "true", "attention scores that are not divided by the root of their width"),
    only("scale_attn_by_inverse_layer_idx", "false", "attention scores that are divided by the layer's number"),
    same_as("hidden_size", "n_embd"),
    same_as("max_position_embeddings", "n_positions"),
    same_as("num_attention_heads", "n_head"),
    same_as("num_hidden_layers", "n_layer"),
    no_effect("n_ctx"),
    no_effect("is_decoder"),
    no_effect("reorder_and_upcast_attn"),
    no_effect("attn_pdrop"),
    no_effect("embd_pdrop"),
    no_effect("resid_pdrop"),
    no_effect("predict_special_tokens"),
    no_effect("apply_query_key_layer_scaling"),
    no_effect("normalize_attention_scores"),
    // These keys belong to a head that the language model's class does not have.
    no_effect("summary_type"),
    no_effect("summary_use_proj"),
    no_effect("summary_activation"),
    no_effect("summary_proj_to_labels"),
    no_effect("summary_first_dropout"),
};

constexpr std::array bigcode_keys{
    read("multi_query", "true"),
    read("activation_function", "\"gelu_pytorch_tanh\""),
    no_effect("attention_softmax_in_fp32"),
    no_effect("scale_attention_softmax_in_fp32"),
    no_effect("num_key_value_heads"),  // follows from multi_query
    no_effect("inference_runner"),
    no_effect("max_batch_size"),
    no_effect("max_sequence_length"),
    no_effect("validate_runner_input"),
    no_effect("pre_allocate_kv_cache"),
};

/// GPT-J and CodeGen.
constexpr std::array gptj_keys{
    read("n_layer", "28", "layers"),
    read("n_embd", "4096", "hidden"),
    read("n_head", "16", "heads"),
    read("vocab_size", "50400", "vocabulary"),
    read("n_positions", "2048", "max_positions"),
    read("rotary_dim", "64", "rotary_dim"),
    read("tie_word_embeddings", "false"),
    only("rotary", "true", "positions that do not rotate"),
    no_effect("jax"),
};

constexpr std::array gpt_neo_keys{
    read("num_hidden_layers", "24", "layers"),
    read("hidden_size", "2048", "hidden"),
    read("num_attention_heads", "16", "heads"),
    read("intermediate_size", "null", "ffn"),
    read("vocab_size", "50257", "vocabulary"),
    read("max_position_embeddings", "2048", "max_positions"),
    read("layer_norm_eps", "1e-5", "norm_epsilon"),
    read("hidden_act", "\"gelu_new\""),
    read("tie_word_embeddings", "true"),
    read("window_size", "256"),
    read("attention_types", "null"),
    same_as("num_layers", "num_hidden_layers"),
    same_as("num_heads", "num_attention_heads"),
    same_as("activation_function", "hidden_act"),
    same_as("layer_norm_epsilon", "layer_norm_eps"),
    no_effect("attention_layers"),  // attention_types, written out
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("embed_dropout"),
    no_effect("resid_dropout"),
    no_effect("classifier_dropout"),
    no_effect("summary_type"),
    no_effect("summary_use_proj"),
    no_effect("summary_activation"),
    no_effect("summary_proj_to_labels"),
    no_effect("summary_first_dropout"),
};

constexpr std::array biogpt_keys{
    read("num_hidden_layers", "24", "layers"),
    read("hidden_size", "1024", "hidden"),
    read("num_attention_heads", "16", "heads"),
    read("intermediate_size", "4096", "ffn"),
    read("vocab_size", "42384", "vocabulary"),
    read("max_position_embeddings", "1024", "max_positions"),
    read("hidden_act", "\"gelu\""),
    read("layer_norm_eps", "1e-12", "norm_epsilon"),
    read("tie_word_embeddings", "true"),
    read("scale_embedding", "true"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("layerdrop"),
    no_effect("activation_dropout"),
    no_effect("hidden_dropout_prob"),
    no_effect("attention_probs_dropout_prob"),
};
constexpr std::array opt_keys{
    read("num_hidden_layers", "12", "layers"),
    read("hidden_size", "768", "hidden"),
    read("num_attention_heads", "12", "heads"),
    read("intermediate_size", "3072", "ffn"),
    read("vocab_size", "50272", "vocabulary"),
    read("max_position_embeddings", "2048", "max_positions"),
    read("hidden_act", "\"relu\""),
    read("tie_word_embeddings", "true"),
    read("word_embed_proj_dim", "null"),
    read("do_layer_norm_before", "true"),
    read("enable_bias", "true"),
    only("layer_norm_elementwise_affine", "true", "norms without weights"),
    same_as("ffn_dim", "intermediate_size"),
    same_as("activation_function", "hidden_act"),
    no_effect("_remove_final_layer_norm"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("layerdrop"),
    no_effect("init_std"),
    no_effect("dropout"),
    no_effect("activation_dropout"),
};

constexpr std::array bloom_keys{
    read("num_hidden_layers", "2", "layers"),
    read("hidden_size", "64", "hidden"),
    read("num_attention_heads", "8", "heads"),
    read("intermediate_size", "null", "ffn"),
    read("vocab_size", "250880", "vocabulary"),
    read("layer_norm_eps", "1e-5", "norm_epsilon"),
    read("hidden_act", "\"gelu\""),
    read("tie_word_embeddings", "true"),
    only("apply_residual_connection_post_layernorm", "false", "branches that are added to the norm's output"),
    same_as("n_layer", "num_hidden_layers"),
    same_as("n_head", "num_attention_heads"),
    same_as("n_embed", "hidden_size"),
    same_as("layer_norm_epsilon", "layer_norm_eps"),
    same_as("n_inner", "intermediate_size"),
    same_as("seq_length", "max_position_embeddings"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("slow_but_exact"),
    no_effect("skip_bias_add"),
    no_effect("skip_bias_add_qkv"),
    no_effect("masked_softmax_fusion"),
    no_effect("bias_dropout_fusion"),
    no_effect("attention_softmax_in_fp32"),
    no_effect("offset_alibi"),
    no_effect("unk_token_id"),
};

constexpr std::array mpt_keys{
    read("num_hidden_layers", "24", "layers"),
    read("hidden_size", "2048", "hidden"),
    read("num_attention_heads", "16", "heads"),
    read("vocab_size", "50368", "vocabulary"),
    read("max_position_embeddings", "2048", "max_positions"),
    read("layer_norm_eps", "1e-5", "norm_epsilon"),
    read("hidden_act", "\"gelu\""),
    read("tie_word_embeddings", "true"),
    read("expansion_ratio", "4"),
    read("no_bias", "true"),
    read("learned_pos_emb", "true"),
    read("attn_config.alibi", "true"),
    read("attn_config.kv_n_heads", "null", "kv_heads"),
    read("attn_config.clip_qkv", "null", "qkv_clip"),
    read("attn_config.softmax_scale", "null", "attention_scale"),
    only("attn_config.qk_ln", "false", "norms of queries and keys over all heads"),
    only("attn_config.prefix_lm", "false", "positions that see later ones"),
    only("logit_scale", "null", "scaled logits"),
    no_effect("attn_config.alibi_bias_max"),
    no_effect("attn_config.attn_type"),
    no_effect("attn_config.attn_impl"),
    no_effect("attn_config.attn_pdrop"),
    no_effect("attn_config.attn_uses_sequence_id"),
    no_effect("attn_config.model_type"),
    same_as("n_layers", "num_hidden_layers"),
    same_as("n_heads", "num_attention_heads"),
    same_as("d_model", "hidden_size"),
    same_as("max_seq_len", "max_position_embeddings"),
    same_as("layer_norm_epsilon", "layer_norm_eps"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
    no_effect("init_device"),
    no_effect("init_config"),
    no_effect("embedding_fraction"),
    no_effect("emb_pdrop"),
    no_effect("norm_type"),
    no_effect("verbose"),
};

constexpr std::array starcoder2_keys{
    read("vocab_size", "49152", "vocabulary"),
    read("hidden_size", "3072", "hidden"),
    read("intermediate_size", "12288", "ffn"),
    read("num_hidden_layers", "30", "layers"),
    read("num_attention_heads", "24", "heads"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("hidden_act", "\"gelu_pytorch_tanh\""),
    read("tie_word_embeddings", "true"),
    read("use_bias", "true"),
    read("sliding_window", "null"),
    same_as("norm_epsilon", "layer_norm_eps"),
    only("norm_type", "\"layer_norm\"", "another norm"),
    only("mlp_type", "\"default\"", "another feed-forward layer"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array nemotron_keys{
    read("vocab_size", "256000", "vocabulary"),
    read("hidden_size", "6144", "hidden"),
    read("intermediate_size", "24576", "ffn"),
    read("num_attention_heads", "48", "heads"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("hidden_act", "\"relu2\""),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    same_as("norm_eps", "layer_norm_eps"),
    same_as("rope_percent", "partial_rotary_factor"),
    same_as("rope_percentage", "partial_rotary_factor"),
    same_as("kv_channels", "head_dim"),
};

constexpr std::array jais2_keys{
    read("vocab_size", "150272", "vocabulary"),
    read("hidden_size", "3328", "hidden"),
    read("intermediate_size", "26624", "ffn"),
    read("num_attention_heads", "26", "heads"),
    read("max_position_embeddings", "8192", "max_positions"),
    read("hidden_act", "\"relu2\""),
    read("attention_bias", "true"),
    read("mlp_bias", "true"),
};

/// Sizes under GPT-2's names, with biases everywhere.
ModelSpec gpt_sizes(Config& c) {
  ModelSpec m;
  m.layers = c.whole("n_layer", max_layers);
  m.hidden = c.whole("n_embd", max_width);
  m.heads = c.whole("n_head", max_width);
  m.kv_heads = m.heads;
  heads_divide(c, m, "n_head", "n_embd");
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("n_inner", max_width, std::min(max_width, 4 * m.hidden));
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("n_positions", max_sequence);
  m.norm_epsilon = c.number("layer_norm_epsilon", 0.0, 1.0);
  m.activation = activation(c, "activation_function", Gate::without);
  m.tied_embeddings = c.flag("tie_word_embeddings");
  return m;
}

/// A decoder beside an encoder attends to it in every layer: four products h^2 + h and a norm of 2 h.
ModelSpec gpt2(Config& c) {
  ModelSpec m = gpt_sizes(c);
  if (c.flag("add_cross_attention"))
    only_counted(m, m.layers * (4 * m.hidden * (m.hidden + 1) + 2 * m.hidden), "cross-attention");
  return m;
}

ModelSpec gpt_bigcode(Config& c) {
  ModelSpec m = gpt_sizes(c);
  if (c.flag("multi_query")) m.kv_heads = 1;
  return m;
}

/// One norm for both branches; attention and the head: no biases but the head's own.
ModelSpec gptj(Config& c) {
  ModelSpec m = gpt_sizes(c);
  m.parallel = ParallelBranches::one_norm;
  m.biases = {false, false, true, true};
  m.positions = PositionEncoding::rotary;
  if (!c.none("rotary_dim")) m.rotary_dim = c.whole("rotary_dim", max_width);
  if (m.rotary_dim == m.head_dim) m.rotary_dim = 0;
  return m;
}

/// attention_types lists pairs of a pattern and how often it stands: [[["global", "local"], 12]].
std::vector<bool> local_layers(Config& c, const ModelSpec& m) {
  std::vector<bool> local;
  const nlohmann::json* types = c.find("attention_types");
  if (types == nullptr) {
    for (std::uint64_t l = 0; l < m.layers; ++l) local.push_back(l % 2 == 1);
    return local;
  }
  bool good = types->is_array();
  for (std::size_t i = 0; good && i < types->size(); ++i) {
    const nlohmann::json& part = (*types)[i];
    good = part.is_array() && part.size() == 2 && part[0].is_array() && part[1].is_number_unsigned() &&
           part[1].get<std::uint64_t>() <= m.layers;
    for (std::uint64_t n = 0; good && n < part[1].get<std::uint64_t>(); ++n) {
      for (const nlohmann::json& kind : part[0]) local.push_back(kind == "local");
    }
  }
  if ((!good || local.size() != m.layers) && c.good()) {
    c.error("attention_types", "hf.type", "attention_types does not give every layer a kind",
            {"It is a list of pairs: kinds, and how often they stand."});
  }
  local.resize(m.layers);
  return local;
}

ModelSpec gpt_neo(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.biases = {false, true, true, false};
  m.attention_scale = 1.0;  // its scores are not divided
  const std::vector<bool> local = local_layers(c, m);
  read_windows(
      c, m, [&](std::uint64_t l) { return local[l]; }, "window_size");
  return m;
}

/// The embedding is narrower than the stream in the 350M, whose norms stand behind the branches.
ModelSpec opt(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.norm = Norm::layer_norm;
  m.position_offset = 2;
  m.biases = Biases::of_layers(c.flag("enable_bias"));
  const std::uint64_t width = c.whole("word_embed_proj_dim", max_width, m.hidden);
  const bool before = c.flag("do_layer_norm_before");
  if (!c.good() || (width == m.hidden && before)) return m;
  // The count of the spec has a table as wide as the stream, and a final norm.
  const std::uint64_t table = m.vocabulary * m.hidden, narrow = m.vocabulary * width;
  const std::uint64_t projections = width == m.hidden ? 0 : 2 * width * m.hidden;
  m.counted = CountedOnly{parameter_count(m) - table + narrow + projections - (before ? 0 : 2 * m.hidden), 0,
                          "norms behind branches that are added, or an embedding narrower than the stream"};
  return m;
}

/// OPT's positions, words scaled by sqrt(h), and biases everywhere.
ModelSpec biogpt(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.norm = Norm::layer_norm;
  m.position_offset = 2;
  m.biases = Biases::of_layers(true);
  if (c.flag("scale_embedding")) m.embedding_scale = std::sqrt(static_cast<double>(m.hidden));
  return m;
}

ModelSpec bloom(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.positions = PositionEncoding::alibi;
  m.biases = Biases::of_layers(true);
  m.embedding_norm = true;
  return m;
}

ModelSpec mpt(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.ffn = c.whole("expansion_ratio", 1024) * m.hidden;
  m.kv_heads = c.none("attn_config.kv_n_heads") ? m.heads : c.whole("attn_config.kv_n_heads", max_width);
  m.norm_bias = !c.flag("no_bias");
  m.biases = Biases::of_layers(m.norm_bias);
  m.positions = c.flag("attn_config.alibi") ? PositionEncoding::alibi
                : c.flag("learned_pos_emb") ? PositionEncoding::learned
                                            : PositionEncoding::none;
  if (!c.none("attn_config.clip_qkv")) m.qkv_clip = c.number("attn_config.clip_qkv", 1e-3, 1e6);
  if (!c.none("attn_config.softmax_scale")) m.attention_scale = c.number("attn_config.softmax_scale", 1e-6, 1e6);
  return m;
}

ModelSpec starcoder2(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.biases = Biases::of_layers(c.flag("use_bias"));
  read_windows(c, m, every_layer());
  return m;
}

ModelSpec plain(Config& c) { return decoder(c, Gate::without); }

}  // namespace

std::vector<Family> gpt_families() {
  const Keys common = common_keys(), rotary = rotary_keys(), usual = usual_keys(), norm = layer_norm_keys();
  return {
      {"gpt2", {"GPT2LMHeadModel"}, {gpt2_keys, gpt_keys, common}, gpt2},
      {"gpt-sw3", {"GPT2LMHeadModel"}, {gpt_keys, common}, gpt2},
      {"gpt_bigcode", {"GPTBigCodeForCausalLM"}, {bigcode_keys, gpt_keys, common}, gpt_bigcode},
      {"gptj", {"GPTJForCausalLM"}, {gptj_keys, gpt_keys, common}, gptj},
      {"codegen", {"CodeGenForCausalLM"}, {gptj_keys, gpt_keys, common}, gptj},
      {"gpt_neo", {"GPTNeoForCausalLM"}, {gpt_neo_keys, usual, common}, gpt_neo},
      {"opt", {"OPTForCausalLM"}, {opt_keys, usual, norm, common}, opt},
      {"biogpt", {"BioGptForCausalLM"}, {biogpt_keys, usual, norm, common}, biogpt},
      {"bloom", {"BloomForCausalLM"}, {bloom_keys, usual, common}, bloom},
      {"mpt", {"MptForCausalLM", "MPTForCausalLM"}, {mpt_keys, usual, common}, mpt},
      {"starcoder2", {"Starcoder2ForCausalLM"}, {starcoder2_keys, usual, norm, rotary, common}, starcoder2},
      {"nemotron", {"NemotronForCausalLM"}, {nemotron_keys, usual, norm, rotary, common}, plain},
      {"jais2", {"Jais2ForCausalLM"}, {jais2_keys, usual, norm, rotary, common}, plain},
  };
}

}  // namespace orrery::hf
