#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Gemma: wide heads, a gate of gelu, an embedding that is scaled by the root of its width.
namespace orrery::hf {
namespace {

constexpr std::array gemma_keys{
    read("vocab_size", "256000", "vocabulary"),
    read("hidden_size", "3072", "hidden"),
    read("intermediate_size", "24576", "ffn"),
    read("num_hidden_layers", "28", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "16", "kv_heads"),
    read("head_dim", "256", "head_dim"),
    read("max_position_embeddings", "8192", "max_positions"),
    read("hidden_act", "\"gelu_pytorch_tanh\""),
    read("hidden_activation", "null"),
    read("tie_word_embeddings", "true"),
    only("use_bidirectional_attention", "false", "positions that see later ones"),
    no_effect("mlp_bias"),
};

constexpr std::array gemma2_keys{
    read("hidden_size", "2304", "hidden"),
    read("intermediate_size", "9216", "ffn"),
    read("num_hidden_layers", "26", "layers"),
    read("num_attention_heads", "8", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("query_pre_attn_scalar", "256"),
    read("sliding_window", "4096"),
    read("layer_types", "null"),
    read("final_logit_softcapping", "30.0", "logit_softcap"),
    read("attn_logit_softcapping", "50.0", "attention_softcap"),
    no_effect("cache_implementation"),
};

constexpr std::array gemma3_keys{
    read("vocab_size", "262208", "vocabulary"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rope_theta", "1000000.0", "rope_theta"),
    read("rope_local_base_freq", "10000.0"),
    read("sliding_window_pattern", "6"),
    read("final_logit_softcapping", "null", "logit_softcap"),
    read("attn_logit_softcapping", "null", "attention_softcap"),
};

ModelSpec gemma(Config& c) {
  ModelSpec m = decoder(c);
  if (!c.none("hidden_activation")) m.activation = activation(c, "hidden_activation", Gate::with);
  m.embedding_scale = std::sqrt(static_cast<double>(m.hidden));
  return m;
}

double cap(Config& c, const char* key) { return c.none(key) ? 0.0 : c.number(key, 1e-3, 1e6); }

/// What Gemma-2 and 3 have in common.
ModelSpec gemma2_layers(Config& c, std::uint64_t period) {
  ModelSpec m = gemma(c);
  m.branch_norms = BranchNorms::both;
  const double scalar = c.number("query_pre_attn_scalar", 1e-3, 1e6);
  if (scalar != static_cast<double>(m.head_dim)) m.attention_scale = 1.0 / std::sqrt(scalar);
  m.attention_softcap = cap(c, "attn_logit_softcapping");
  m.logit_softcap = cap(c, "final_logit_softcapping");
  read_windows(c, m, all_but_one_in(period));
  return m;
}

ModelSpec gemma2(Config& c) { return gemma2_layers(c, 2); }

ModelSpec gemma3(Config& c) {
  ModelSpec m = gemma2_layers(c, c.whole_from_zero("sliding_window_pattern", max_layers));
  m.query_key_norm = QueryKeyNorm::head;
  if (m.local) m.local->rope_theta = local_rope_theta(c, "rope_local_base_freq");
  return m;
}

/// Gemma-2 trained with differential privacy has no norms behind its branches.
ModelSpec vault_gemma(Config& c) {
  ModelSpec m = gemma2(c);
  m.branch_norms = BranchNorms::before;
  return m;
}

}  // namespace

std::vector<Family> gemma_families() {
  const std::vector<Keys> common{usual_keys(), rms_keys(), rotary_keys(), common_keys()};
  const auto with = [&](std::vector<Keys> own) {
    own.insert(own.end(), common.begin(), common.end());
    return own;
  };
  return {
      {"gemma", {"GemmaForCausalLM"}, with({gemma_keys}), gemma},
      {"gemma2", {"Gemma2ForCausalLM"}, with({gemma2_keys, gemma_keys}), gemma2},
      {"gemma3_text", {"Gemma3ForCausalLM"}, with({gemma3_keys, gemma2_keys, gemma_keys}), gemma3},
      {"vaultgemma", {"VaultGemmaForCausalLM"}, with({gemma2_keys, gemma_keys}), vault_gemma},
  };
}

}  // namespace orrery::hf
