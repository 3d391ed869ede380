#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with convolutions or recurrences beside attention.
namespace orrery::hf {
namespace {

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
  ModelSpec m = decoder_shape(c);
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
  ModelSpec m = decoder_shape(c);
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

std::vector<Family> recurrence_families() {
  return with_tables(
      {
          {"lfm2", {"Lfm2ForCausalLM"}, {lfm2_keys}, lfm2},
          {"lfm2_moe", {"Lfm2MoeForCausalLM"}, {lfm2_moe_keys, lfm2_keys}, lfm2},
          {"recurrent_gemma", {"RecurrentGemmaForCausalLM"}, {recurrent_keys}, recurrent_gemma},
      },
      {usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
