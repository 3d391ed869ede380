#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery::hf {

using nlohmann::json;

ModelSpec gpt2(Config& c) {
  ModelSpec m;
  m.layers = c.whole("n_layer", 12, max_layers);
  m.hidden = c.whole("n_embd", 768, max_width);
  m.heads = c.whole("n_head", 12, max_width);
  m.kv_heads = m.heads;
  if (c.good() && m.hidden % m.heads != 0) {
    c.error("n_head", "model.heads", "n_head does not divide n_embd",
            {fmt::format("n_embd is {}, and {} / {} leaves {}.", m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
  }
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("n_inner", 4 * m.hidden, max_width);
  m.vocabulary = c.whole("vocab_size", 50257, max_vocabulary);
  m.max_positions = c.whole("n_positions", 1024, max_sequence);
  m.norm_epsilon = c.number("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  c.only("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.norm = Norm::layer_norm;
  m.activation = Activation::gelu;
  m.positions = PositionEncoding::learned;
  m.bias = true;
  return m;
}

ModelSpec llama(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", std::nullopt, max_layers);
  m.hidden = c.whole("hidden_size", std::nullopt, max_width);
  m.heads = c.whole("num_attention_heads", std::nullopt, max_width);
  m.kv_heads = c.whole("num_key_value_heads", m.heads, max_width);
  if (c.good() && c.find("head_dim") == nullptr && m.hidden % m.heads != 0) {
    c.error(
        "num_attention_heads", "model.heads", "num_attention_heads does not divide hidden_size",
        {fmt::format("hidden_size is {}, and {} / {} leaves {}.", m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
  }
  m.head_dim = c.whole("head_dim", std::max<std::uint64_t>(1, m.hidden / m.heads), max_width);
  m.ffn = c.whole("intermediate_size", std::nullopt, max_width);
  m.vocabulary = c.whole("vocab_size", std::nullopt, max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", 2048, max_sequence);
  m.norm_epsilon = c.number("rms_norm_eps", 1e-6, 0.0, 1.0);
  m.rope_theta = c.number("rope_theta", 10000.0, 1.0, 1e12);
  if (const json* rope = c.find("rope_parameters"); rope != nullptr && rope->is_object()) {
    m.rope_theta = c.number_in(*rope, "rope_theta", "rope_parameters", m.rope_theta, 1.0, 1e12);
  }
  m.rope_scaling = rope_scaling(c, "rope_scaling");
  if (m.rope_scaling.empty()) m.rope_scaling = rope_scaling(c, "rope_parameters");
  c.only("hidden_act", "silu", {"silu", "swish"});
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  const bool attention_bias = c.flag("attention_bias", false);
  const bool mlp_bias = c.flag("mlp_bias", false);
  if (attention_bias != mlp_bias) {
    c.error(attention_bias ? "attention_bias" : "mlp_bias", "hf.unsupported",
            "biases in only one of attention and feed-forward layers are not supported");
  }
  m.bias = attention_bias && mlp_bias;
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  return m;
}

}  // namespace orrery::hf
