#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Types whose attention and feed-forward layer stand side by side, at least in some of their models.
namespace orrery::hf {
namespace {

constexpr std::array neox_keys{
    read("vocab_size", "50432", "vocabulary"),
    read("hidden_size", "6144", "hidden"),
    read("intermediate_size", "24576", "ffn"),
    read("num_hidden_layers", "44", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("hidden_act", "\"gelu\""),
    read("attention_bias", "true"),
    read("partial_rotary_factor", "0.25", "rotary_dim"),
    read("use_parallel_residual", "true"),
    same_as("rotary_pct", "partial_rotary_factor"),
    same_as("rotary_emb_base", "rope_theta"),
    no_effect("mlp_bias"),
    no_effect("classifier_dropout"),
    no_effect("num_key_value_heads"),
};

constexpr std::array phi_keys{
    read("vocab_size", "51200", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "8192", "ffn"),
    read("num_hidden_layers", "24", "layers"),
    read("hidden_act", "\"gelu_new\""),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    only("qk_layernorm", "false", "layer norms of queries and keys"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array falcon_keys{
    read("vocab_size", "65024", "vocabulary"),
    read("hidden_size", "4544", "hidden"),
    read("intermediate_size", "null", "ffn"),
    read("num_attention_heads", "71", "heads"),
    read("hidden_act", "\"gelu\""),
    read("tie_word_embeddings", "true"),
    read("num_kv_heads", "null", "kv_heads"),
    read("num_ln_in_parallel_attn", "null"),
    read("alibi", "false"),
    read("new_decoder_architecture", "false"),
    read("multi_query", "true"),
    read("parallel_attn", "true"),
    read("bias", "false"),
    same_as("ffn_hidden_size", "intermediate_size"),
    same_as("activation", "hidden_act"),
    same_as("n_embed", "hidden_size"),
    same_as("n_layer", "num_hidden_layers"),
    same_as("n_head", "num_attention_heads"),
    same_as("n_head_kv", "num_kv_heads"),
    same_as("layer_norm_epsilon", "layer_norm_eps"),
    only("apply_residual_connection_post_layernorm", "false", "branches that are added to the norm's output"),
    no_effect("ff_factor"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array cohere_keys{
    read("vocab_size", "256000", "vocabulary"),
    read("hidden_size", "8192", "hidden"),
    read("intermediate_size", "22528", "ffn"),
    read("num_hidden_layers", "40", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("max_position_embeddings", "8192", "max_positions"),
    read("tie_word_embeddings", "true"),
    read("logit_scale", "0.0625", "logit_scale"),
    read("use_qk_norm", "false"),
    same_as("model_max_length", "max_position_embeddings"),
    no_effect("mlp_bias"),
    no_effect("use_parallel_block"),
    no_effect("use_parallel_embedding"),
    no_effect("position_embedding_type"),
    no_effect("layer_switch"),
    no_effect("order_of_interleaved_layers"),
    no_effect("rotary_pct"),
    no_effect("use_embedding_sharing"),
    no_effect("use_gated_activation"),
};
constexpr std::array cohere2_keys{
    read("sliding_window", "4096"),
    read("sliding_window_pattern", "4"),
    read("layer_types", "null"),
    no_effect("cache_implementation"),
};

constexpr std::array stablelm_keys{
    read("vocab_size", "50304", "vocabulary"),
    read("intermediate_size", "6912", "ffn"),
    read("hidden_size", "2560", "hidden"),
    read("num_key_value_heads", "32", "kv_heads"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("partial_rotary_factor", "0.25", "rotary_dim"),
    read("use_qkv_bias", "false"),
    read("qk_layernorm", "false"),
    read("use_parallel_residual", "false"),
    same_as("rope_pct", "partial_rotary_factor"),
    same_as("norm_eps", "layer_norm_eps"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

constexpr std::array persimmon_keys{
    read("vocab_size", "262144", "vocabulary"),
    read("intermediate_size", "16384", "ffn"),
    read("num_hidden_layers", "36", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("hidden_act", "\"relu2\""),
    read("max_position_embeddings", "16384", "max_positions"),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
    read("qk_layernorm", "true"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

ModelSpec neox(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.kv_heads = m.heads;
  m.biases.ffn = true;
  if (c.flag("use_parallel_residual")) m.parallel = ParallelBranches::two_norms;
  return m;
}

ModelSpec phi(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.parallel = ParallelBranches::one_norm;
  m.biases = {true, true, true, true};
  return m;
}

ModelSpec falcon(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  const bool newer = c.flag("new_decoder_architecture");
  if (newer) {
    m.kv_heads = c.none("num_kv_heads") ? m.heads : c.whole("num_kv_heads", max_width);
  } else {
    m.kv_heads = c.flag("multi_query") ? 1 : m.heads;
  }
  m.biases = Biases::of_layers(c.flag("bias"));
  if (c.flag("alibi")) m.positions = PositionEncoding::alibi;
  const std::uint64_t norms = c.whole("num_ln_in_parallel_attn", 2, newer ? 2 : 1);
  if (c.flag("parallel_attn")) m.parallel = norms == 2 ? ParallelBranches::two_norms : ParallelBranches::one_norm;
  return m;
}

ModelSpec cohere(Config& c) {
  ModelSpec m = decoder(c);
  m.parallel = ParallelBranches::one_norm;
  m.norm_bias = false;
  m.logit_scale = c.number("logit_scale", 1e-6, 1e6);
  // Each head of queries and keys has weights of its own.
  if (c.flag("use_qk_norm") && c.good())
    only_counted(m, m.layers * (m.heads + m.kv_heads) * m.head_dim, "norms with weights for each head");
  return m;
}

/// Layers that see all positions do not rotate.
ModelSpec cohere2(Config& c) {
  ModelSpec m = cohere(c);
  read_windows(c, m, all_but_one_in(c.whole_from_zero("sliding_window_pattern", max_layers)));
  if (m.local) m.unrotated = m.local->global;
  return m;
}

ModelSpec stablelm(Config& c) {
  ModelSpec m = decoder(c);
  m.biases = {c.flag("use_qkv_bias"), false, false, false};
  if (c.flag("use_parallel_residual")) m.parallel = ParallelBranches::one_norm;
  if (c.flag("qk_layernorm") && c.good())
    only_counted(m, m.layers * (m.heads + m.kv_heads) * m.head_dim, "norms with weights for each head");
  return m;
}

/// Layer norms of queries and keys have weights and biases that all heads share.
ModelSpec persimmon(Config& c) {
  ModelSpec m = decoder(c, Gate::without);
  m.biases = Biases::of_layers(true);
  if (c.flag("qk_layernorm")) m.query_key_norm = QueryKeyNorm::head;
  return m;
}

}  // namespace

std::vector<Family> parallel_families() {
  return with_tables(
      {
          {"gpt_neox", {"GPTNeoXForCausalLM"}, {neox_keys}, neox},
          {"phi", {"PhiForCausalLM"}, {phi_keys}, phi},
          {"falcon", {"FalconForCausalLM", "RWForCausalLM"}, {falcon_keys}, falcon},
          {"RefinedWeb", {"RWForCausalLM", "FalconForCausalLM"}, {falcon_keys}, falcon},
          {"RefinedWebModel", {"RWForCausalLM", "FalconForCausalLM"}, {falcon_keys}, falcon},
          {"cohere", {"CohereForCausalLM"}, {cohere_keys}, cohere},
          {"cohere2", {"Cohere2ForCausalLM"}, {cohere2_keys, cohere_keys}, cohere2},
          {"stablelm", {"StableLmForCausalLM", "StableLMEpochForCausalLM"}, {stablelm_keys}, stablelm},
          {"persimmon", {"PersimmonForCausalLM"}, {persimmon_keys}, persimmon},
      },
      {usual_keys(), layer_norm_keys(), rotary_keys(), common_keys()});
}

}  // namespace orrery::hf
