#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

// Readers of GPT-2, LLaMA, and Mixtral, whose layers are LLaMA's except for the experts.
namespace orrery::hf {

ModelSpec gpt2(Config& c) {
  ModelSpec m;
  m.layers = c.whole("n_layer", max_layers);
  m.hidden = c.whole("n_embd", max_width);
  m.heads = c.whole("n_head", max_width);
  m.kv_heads = m.heads;
  heads_divide(c, m, "n_head", "n_embd");
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("n_inner", max_width, 4 * m.hidden);
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("n_positions", max_sequence);
  m.norm_epsilon = c.number("layer_norm_epsilon", 0.0, 1.0);
  c.choice("activation_function", gelu_names());
  m.tied_embeddings = c.flag("tie_word_embeddings");
  m.norm = Norm::layer_norm;
  m.activation = Activation::gelu;
  m.positions = PositionEncoding::learned;
  m.bias = true;
  return m;
}

ModelSpec llama(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = c.whole("num_attention_heads", max_width);
  m.kv_heads = c.none("num_key_value_heads") ? m.heads : c.whole("num_key_value_heads", max_width);
  if (c.none("head_dim")) heads_divide(c, m, "num_attention_heads", "hidden_size");
  m.head_dim = c.whole("head_dim", max_width, std::max<std::uint64_t>(1, m.hidden / m.heads));
  m.ffn = c.whole("intermediate_size", max_width);
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence);
  m.norm_epsilon = c.number("rms_norm_eps", 0.0, 1.0);
  read_rope(c, m);
  c.choice("hidden_act", silu_names());
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const bool attention_bias = c.flag("attention_bias");
  const bool mlp_bias = c.flag("mlp_bias");
  if (attention_bias != mlp_bias) {
    c.error(attention_bias ? "attention_bias" : "mlp_bias", "hf.unsupported",
            "biases in only one of attention and feed-forward layers are not supported");
  }
  m.bias = attention_bias && mlp_bias;
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  return m;
}

ModelSpec mixtral(Config& c) {
  ModelSpec m = llama(c);
  Mixture x;
  x.experts = static_cast<std::uint32_t>(c.whole("num_local_experts", 4096));
  x.per_token = static_cast<std::uint32_t>(c.whole("num_experts_per_tok", 4096));
  x.ffn = m.ffn;
  m.mixture = x;
  return m;
}

}  // namespace orrery::hf
