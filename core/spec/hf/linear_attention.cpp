#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with linear attention, convolutions or recurrences beside attention.
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
constexpr std::array lfm2_keys{
    read("vocab_size", "65536", "vocabulary"),
    read("hidden_size", "2560", "hidden"),
    read("intermediate_size", "12288", "ffn"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("max_position_embeddings", "128000", "max_positions"),
    read("tie_word_embeddings", "true"),
    read("conv_bias", "false"),
    read("conv_L_cache", "3"),
    read("block_multiple_of", "256"),
    read("block_ffn_dim_multiplier", "1.0"),
    read("block_auto_adjust_ff_dim", "true"),
    read("full_attn_idxs", "null"),
    read("layer_types", "null"),
    same_as("tie_embedding", "tie_word_embeddings"),
    same_as("block_ff_dim", "intermediate_size"),
    same_as("num_heads", "num_attention_heads"),
    no_effect("norm_eps"),
    no_effect("block_norm_eps"),
    no_effect("block_dim"),
    no_effect("block_mlp_init_scale"),
    no_effect("block_out_init_scale"),
    no_effect("block_use_swiglu"),
    no_effect("block_use_xavier_init"),
    no_effect("conv_dim"),
    no_effect("conv_dim_out"),
    no_effect("conv_use_xavier_init"),
    no_effect("use_pos_enc"),
    no_effect("theta"),
    no_effect("hidden_act"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};
constexpr std::array lfm2_moe_keys{
    read("hidden_size", "2048", "hidden"), read("intermediate_size", "7168", "ffn"),
    read("moe_intermediate_size", "1792"), read("num_dense_layers", "2"),
    read("num_experts_per_tok", "4"),      read("num_experts", "32"),
    no_effect("use_expert_bias"),          no_effect("routed_scaling_factor"),
    no_effect("norm_topk_prob"),
};
constexpr std::array recurrent_keys{
    read("vocab_size", "256000", "vocabulary"),
    read("hidden_size", "2560", "hidden"),
    read("intermediate_size", "7680", "ffn"),
    read("num_hidden_layers", "26", "layers"),
    read("num_attention_heads", "10", "heads"),
    read("tie_word_embeddings", "true"),
    read("lru_width", "null"),
    read("conv1d_width", "4"),
    read("block_types", "[\"recurrent\", \"recurrent\", \"attention\"]"),
    no_effect("layers_block_type"),
    no_effect("layer_types"),
    no_effect("_block_types"),
    no_effect("attention_window_size"),
    no_effect("sliding_window"),
    no_effect("head_dim"),
    no_effect("hidden_activation"),
    no_effect("logits_soft_cap"),
    no_effect("w_init_variance_scale"),
    no_effect("final_w_init_variance_scale"),
    no_effect("mlp_bias"),
};

ModelSpec mixed(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads", .head_dim = "head_dim"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  return m;
}

/// Attention whose queries bring a gate of the same width, with norms of queries and keys.
Count gated_attention(Config& c, const ModelSpec& m) {
  const Count h = m.hidden, a = m.heads, k = m.kv_heads, d = m.head_dim;
  const bool bias = truth(c, "attention_bias");
  return product(h, (2 * a + 2 * k) * d, bias) + product(a * d, h, bias) + 2 * d;
}

/// Qwen3-Next and Qwen3.5: one layer in a few attends, the others have a gated delta rule.
ModelSpec qwen3_next(Config& c) {
  ModelSpec m = mixed(c);
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
  ModelSpec m = mixed(c);
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
  ModelSpec m = mixed(c);
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

/// The library makes LFM2's width 2/3 of what the file says, times a factor, rounded up to a multiple.
std::uint64_t lfm2_width(Config& c, std::uint64_t given) {
  if (!c.flag("block_auto_adjust_ff_dim")) return given;
  std::uint64_t f = 2 * given / 3;
  if (!c.none("block_ffn_dim_multiplier"))
    f = static_cast<std::uint64_t>(c.number("block_ffn_dim_multiplier", 0.0, 64.0) * static_cast<double>(f));
  const std::uint64_t step = c.whole("block_multiple_of", max_width);
  return (f + step - 1) / step * step;
}

/// LFM2's layers attend, with norms of queries and keys, or convolve: products h x 3 h and h^2, K weights a feature.
ModelSpec lfm2(Config& c) {
  ModelSpec m = mixed(c);
  const Count h = m.hidden;
  const bool sparse = c.knows("num_experts");
  if (!sparse) m.ffn = std::max<std::uint64_t>(1, lfm2_width(c, m.ffn));
  const std::vector<std::uint64_t> attending = c.wholes("full_attn_idxs", max_layers);
  const bool every = c.none("full_attn_idxs");
  const auto names = layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    const bool attends = every || std::find(attending.begin(), attending.end(), l) != attending.end();
    return attends ? "full_attention" : "conv";
  });
  const bool bias = truth(c, "conv_bias");
  const Count convolves =
      product(h, 3 * h, bias) + product(h, h, bias) + h * number(c, "conv_L_cache") + (bias ? h : Count(0));
  const Count attends = grouped_attention(h, m.heads, m.kv_heads, m.head_dim, false, false) + 2 * Count(m.head_dim);
  Experts mixture;
  if (sparse)
    mixture = {number(c, "num_experts"), number(c, "num_experts_per_tok"), number(c, "moe_intermediate_size")};
  const std::uint64_t dense = sparse ? c.whole_from_zero("num_dense_layers", max_layers) : m.layers;
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    all.add(2 * h + (names[l] == "full_attention" ? attends : convolves));
    if (l < dense) {
      all.add(feed_forward(h, m.ffn, true, false));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "layers that convolve");
  return m;
}

/// RecurrentGemma: a recurrence of w features has products 2 h w and w h with biases, a convolution, two gates that are
/// blocks of (w / a)^2 for each head with biases, and w weights. Feed-forward layers are half of what the file says.
ModelSpec recurrent_gemma(Config& c) {
  ModelSpec m = mixed(c);
  const Count h = m.hidden, a = m.heads, w = number(c, "lru_width", h);
  m.ffn = std::max<std::uint64_t>(1, m.ffn / 2);
  const std::vector<std::string> kinds = c.texts("block_types");
  const bool bias = truth(c, "attention_bias");
  const Count attends = grouped_attention(h, a, m.kv_heads, m.head_dim, bias, true);
  const Count recurs =
      2 * product(h, w, true) + product(w, h, true) + w * number(c, "conv1d_width") + w + 2 * (w * w / a + w) + w;
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    const bool is_attention = !kinds.empty() && kinds[l % kinds.size()] == "attention";
    all.add(2 * h + feed_forward(h, m.ffn, true, true) + (is_attention ? attends : recurs));
  }
  count_decoder(c, m, all, "recurrent layers");
  return m;
}

}  // namespace

std::vector<Family> linear_attention_families() {
  const auto family = [](std::string_view type, std::string_view name, std::vector<Keys> own,
                         ModelSpec (*reader)(Config&)) {
    own.insert(own.end(), {usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
    return Family{type, {name}, std::move(own), reader};
  };
  return {
      family("qwen3_next", "Qwen3NextForCausalLM", {next_keys, linear_keys}, qwen3_next),
      family("qwen3_5_text", "Qwen3_5ForCausalLM", {qwen3_5_keys, linear_keys}, qwen3_next),
      family("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", {qwen3_5_moe_keys, next_keys, linear_keys}, qwen3_next),
      family("olmo_hybrid", "OlmoHybridForCausalLM", {olmo_keys}, olmo_hybrid),
      family("minimax", "MiniMaxForCausalLM", {minimax_keys}, minimax),
      family("lfm2", "Lfm2ForCausalLM", {lfm2_keys}, lfm2),
      family("lfm2_moe", "Lfm2MoeForCausalLM", {lfm2_moe_keys, lfm2_keys}, lfm2),
      family("recurrent_gemma", "RecurrentGemmaForCausalLM", {recurrent_keys}, recurrent_gemma),
  };
}

}  // namespace orrery::hf
