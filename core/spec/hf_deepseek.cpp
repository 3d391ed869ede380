#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

// DeepSeek-V2 and V3: latent attention.
namespace orrery::hf {

ModelSpec deepseek(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", std::nullopt, max_layers);
  m.hidden = c.whole("hidden_size", std::nullopt, max_width);
  m.heads = c.whole("num_attention_heads", std::nullopt, max_width);
  m.kv_heads = m.heads;
  m.head_dim = c.whole("qk_nope_head_dim", 128, max_width);
  LatentAttention l;
  if (c.find("q_lora_rank") != nullptr) l.query_rank = c.whole("q_lora_rank", std::nullopt, max_width);
  l.kv_rank = c.whole("kv_lora_rank", 512, max_width);
  l.rope_dim = c.whole("qk_rope_head_dim", 64, max_width);
  l.value_dim = c.whole("v_head_dim", 128, max_width);
  m.latent = l;
  m.ffn = c.whole("intermediate_size", std::nullopt, max_width);
  m.vocabulary = c.whole("vocab_size", std::nullopt, max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", 2048, max_sequence);
  m.norm_epsilon = c.number("rms_norm_eps", 1e-6, 0.0, 1.0);
  m.rope_theta = c.number("rope_theta", 10000.0, 1.0, 1e12);
  m.rope_scaling = rope_scaling(c, "rope_scaling");
  c.only("hidden_act", "silu", {"silu", "swish"});
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  if (c.flag("attention_bias", false)) {
    c.error("attention_bias", "hf.unsupported", "latent attention with biases is not supported");
  }
  if (c.find("num_nextn_predict_layers") != nullptr) {
    m.prediction_modules = c.whole_from_zero("num_nextn_predict_layers", max_layers);
  }
  // Experts are in every layer from first_k_dense_replace on.
  const bool experts = c.find("n_routed_experts") != nullptr;
  const bool all_dense =
      c.find("first_k_dense_replace") != nullptr && c.whole_from_zero("first_k_dense_replace", max_layers) >= m.layers;
  if (experts && !all_dense) {
    deepseek_experts(c, m);
  }
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  m.bias = false;
  return m;
}

}  // namespace orrery::hf
