#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with linear attention beside attention.
namespace orrery::hf {
namespace {

/// Keys of linear attention, and of gates in attention.
constexpr std::array linear_keys{
    read("linear_conv_kernel_dim", "4"),
    read("linear_key_head_dim", "128"),
    read("linear_value_head_dim", "128"),
    read("linear_num_key_heads", "16"),
    read("linear_num_value_heads", "32"),
    read("full_attention_interval", "4"),
    read("layer_types", "null"),
    read("partial_rotary_factor", "0.25"),
    no_effect("mlp_bias"),
    no_effect("mamba_ssm_dtype"),
    no_effect("attn_output_gate"),
    no_effect("output_gate_type"),
    // The library's class builds no prediction modules.
    no_effect("mtp_num_hidden_layers"),
    no_effect("mtp_use_dedicated_embeddings"),
};
constexpr std::array next_keys{
    read("vocab_size", "151936", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "5632", "ffn"),
    read("num_hidden_layers", "48", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("head_dim", "256", "head_dim"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("decoder_sparse_step", "1"),
    read("mlp_only_layers", "null"),
    read("moe_intermediate_size", "512"),
    read("shared_expert_intermediate_size", "512"),
    read("num_experts_per_tok", "10"),
    read("num_experts", "512"),
    no_effect("norm_topk_prob"),
};
constexpr std::array qwen3_5_keys{
    read("vocab_size", "248320", "vocabulary"), read("hidden_size", "4096", "hidden"),
    read("intermediate_size", "12288", "ffn"),  read("num_hidden_layers", "32", "layers"),
    read("num_attention_heads", "16", "heads"), read("num_key_value_heads", "4", "kv_heads"),
    read("head_dim", "256", "head_dim"),        read("max_position_embeddings", "32768", "max_positions"),
};
constexpr std::array qwen3_5_moe_keys{
    read("vocab_size", "248320", "vocabulary"),
    read("num_hidden_layers", "40", "layers"),
    read("num_experts_per_tok", "8"),
    read("num_experts", "256"),
    no_effect("intermediate_size"),
};
constexpr std::array olmo_keys{
    read("vocab_size", "100352", "vocabulary"),
    read("hidden_size", "3840", "hidden"),
    read("num_attention_heads", "30", "heads"),
    read("num_key_value_heads", "null", "kv_heads"),
    read("max_position_embeddings", "65536", "max_positions"),
    read("linear_key_head_dim", "null"),
    read("linear_value_head_dim", "null"),
    read("linear_num_key_heads", "null"),
    read("linear_num_value_heads", "null"),
    read("linear_conv_kernel_dim", "4"),
    read("layer_types", "null"),
    no_effect("fla_hybrid_attention_indices"),
    no_effect("linear_a_log_min"),
    no_effect("linear_a_log_max"),
    no_effect("linear_dt_min"),
    no_effect("linear_dt_max"),
    no_effect("linear_dt_init_floor"),
    no_effect("linear_allow_neg_eigval"),
    no_effect("linear_use_gate"),
    no_effect("mlp_bias"),
};
constexpr std::array minimax_keys{
    read("intermediate_size", "14336", "mixture.ffn"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("num_experts_per_tok", "2"),
    read("num_local_experts", "8"),
    read("layer_types", "null"),
    same_as("num_experts", "num_local_experts"),
    no_effect("sliding_window"),
    no_effect("block_size"),
    no_effect("full_attn_alpha_factor"),
    no_effect("full_attn_beta_factor"),
    no_effect("linear_attn_alpha_factor"),
    no_effect("linear_attn_beta_factor"),
    no_effect("mlp_alpha_factor"),
    no_effect("mlp_beta_factor"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

/// Attention whose queries bring a gate of the same width, with norms of queries and keys.
Count gated_attention(Config& c, const ModelSpec& m) {
  const Count h = m.hidden, a = m.heads, k = m.kv_heads, d = m.head_dim;
  const bool bias = truth(c, "attention_bias");
  return product(h, (2 * a + 2 * k) * d, bias) + product(a * d, h, bias) + 2 * d;
}

/// Qwen3-Next and Qwen3.5: one layer in a few attends, the others have a gated delta rule.
ModelSpec qwen3_next(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  const std::uint64_t interval = c.whole("full_attention_interval", max_layers);
  const auto names = layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    return (l + 1) % interval != 0 ? "linear_attention" : "full_attention";
  });
  const DeltaRule rule{number(c, "linear_num_key_heads"), number(c, "linear_key_head_dim"),
                       number(c, "linear_num_value_heads"), number(c, "linear_value_head_dim"),
                       number(c, "linear_conv_kernel_dim")};
  Experts mixture;
  if (c.knows("num_experts")) {
    mixture = {number(c, "num_experts"), number(c, "num_experts_per_tok"), number(c, "moe_intermediate_size"),
               number(c, "shared_expert_intermediate_size"), true};
  }
  const bool stepped = c.knows("decoder_sparse_step");
  const std::uint64_t step = stepped ? c.whole("decoder_sparse_step", max_layers) : 1;
  const std::vector<std::uint64_t> dense =
      stepped ? c.wholes("mlp_only_layers", max_layers) : std::vector<std::uint64_t>{};
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    all.add(2 * h + (names[l] == "full_attention" ? gated_attention(c, m) : delta_rule(h, rule)));
    const bool mixes =
        mixture.all > Count(0) && (l + 1) % step == 0 && std::find(dense.begin(), dense.end(), l) == dense.end();
    if (mixes) {
      all.add(experts(h, mixture), experts(h, mixture, true));
    } else {
      all.add(feed_forward(h, m.ffn, true, false));
    }
  }
  count_decoder(c, m, all, "linear attention");
  return m;
}

/// OLMo-Hybrid's attention has norms over all features of queries and of keys.
ModelSpec olmo_hybrid(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden, a = m.heads;
  DeltaRule rule;
  rule.key_heads = number(c, "linear_num_key_heads", a);
  rule.value_heads = number(c, "linear_num_value_heads", a);
  rule.key_dim = number(c, "linear_key_head_dim", 3 * h / (4 * rule.key_heads));
  rule.value_dim = number(c, "linear_value_head_dim", 2 * rule.key_dim);
  rule.kernel = number(c, "linear_conv_kernel_dim");
  const auto names = layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    const bool attends = l % 4 == 3 || (m.layers < 4 && l + 1 == m.layers);
    return attends ? "full_attention" : "linear_attention";
  });
  const bool bias = truth(c, "attention_bias");
  const Count attends = grouped_attention(h, a, m.kv_heads, m.head_dim, bias, bias) + (a + m.kv_heads) * m.head_dim;
  Decoder all;
  for (const std::string& name : names) {
    all.add(2 * h + feed_forward(h, m.ffn, true, false) + (name == "full_attention" ? attends : delta_rule(h, rule)));
  }
  count_decoder(c, m, all, "linear attention");
  return m;
}

/// MiniMax-01's linear attention has queries, keys, values, a gate and an output of a d each, and a norm.
ModelSpec minimax(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden, wide = Count(m.heads) * m.head_dim;
  const auto names = layer_names(c, "layer_types", m.layers,
                                 [](std::uint64_t l) { return l % 2 == 0 ? "full_attention" : "linear_attention"; });
  const Experts mixture{number(c, "num_local_experts"), number(c, "num_experts_per_tok"), m.ffn};
  Decoder all;
  for (const std::string& name : names) {
    const bool attends = name == "full_attention";
    all.add(2 * h +
            (attends ? grouped_attention(h, m.heads, m.kv_heads, m.head_dim, false, false) : 5 * h * wide + wide));
    all.add(experts(h, mixture), experts(h, mixture, true));
  }
  count_decoder(c, m, all, "linear attention");
  return m;
}

}  // namespace

std::vector<Family> linear_attention_families() {
  return with_tables(
      {
          {"qwen3_next", {"Qwen3NextForCausalLM"}, {next_keys, linear_keys}, qwen3_next},
          {"qwen3_5_text", {"Qwen3_5ForCausalLM"}, {qwen3_5_keys, linear_keys}, qwen3_next},
          {"qwen3_5_moe_text", {"Qwen3_5MoeForCausalLM"}, {qwen3_5_moe_keys, next_keys, linear_keys}, qwen3_next},
          {"olmo_hybrid", {"OlmoHybridForCausalLM"}, {olmo_keys}, olmo_hybrid},
          {"minimax", {"MiniMaxForCausalLM"}, {minimax_keys}, minimax},
      },
      {usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
