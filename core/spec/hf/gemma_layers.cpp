#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Gemma-3n and Gemma-4: an embedding for each layer, and layers that take keys and values from layers before them.
namespace orrery::hf {
namespace {

constexpr std::array shared_keys{
    read("num_hidden_layers", "35", "layers"),
    read("num_attention_heads", "8", "heads"),
    read("head_dim", "256", "head_dim"),
    read("tie_word_embeddings", "true"),
    read("vocab_size_per_layer_input", "262144"),
    read("hidden_size_per_layer_input", "256"),
    read("layer_types", "null"),
    read("intermediate_size", "16384"),
    no_effect("hidden_activation"),
    no_effect("hidden_act"),
    no_effect("sliding_window"),
    no_effect("final_logit_softcapping"),
    no_effect("attn_logit_softcapping"),
    no_effect("query_pre_attn_scalar"),
    no_effect("use_bidirectional_attention"),
    no_effect("rope_local_base_freq"),
    no_effect("rms_norm_eps"),
    no_effect("rope_theta"),
    no_effect("rope_scaling"),
    no_effect("rope_parameters"),
    no_effect("mlp_bias"),
};
constexpr std::array gemma3n_keys{
    read("vocab_size", "262400", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("num_key_value_heads", "2", "kv_heads"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("num_kv_shared_layers", "15"),
    read("altup_num_inputs", "4"),
    read("laurel_rank", "64"),
    no_effect("activation_sparsity_pattern"),
    no_effect("altup_active_idx"),
    no_effect("altup_coef_clip"),
    no_effect("altup_correct_scale"),
    no_effect("altup_lr_multiplier"),
};
constexpr std::array gemma4_keys{
    read("vocab_size", "262144", "vocabulary"),
    read("hidden_size", "2304", "hidden"),
    read("intermediate_size", "9216"),
    read("num_hidden_layers", "30", "layers"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("num_kv_shared_layers", "0"),
    read("global_head_dim", "512"),
    read("num_global_key_value_heads", "null"),
    read("attention_k_eq_v", "false"),
    read("use_double_wide_mlp", "false"),
    read("enable_moe_block", "false"),
    read("num_experts", "null"),
    read("top_k_experts", "null"),
    read("moe_intermediate_size", "null"),
    same_as("expert_intermediate_size", "moe_intermediate_size"),
};

ModelSpec sizes(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads", .head_dim = "head_dim", .ffn = nullptr});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  return m;
}

/// Widths of the feed-forward parts: one number, or one for each layer.
std::vector<std::uint64_t> widths(Config& c, ModelSpec& m) {
  const nlohmann::json* value = c.find("intermediate_size");
  std::vector<std::uint64_t> out = value != nullptr && value->is_array()
                                       ? c.wholes("intermediate_size", max_width)
                                       : std::vector<std::uint64_t>(m.layers, c.whole("intermediate_size", max_width));
  if (out.size() != m.layers && c.good())
    c.error("intermediate_size", "hf.range", "intermediate_size does not have a number for each layer");
  out.resize(m.layers, 1);
  m.ffn = std::max<std::uint64_t>(1, out.empty() ? 1 : out.front());
  return out;
}

/// Keys and values: products of h x k d, with a norm of d for keys. Layers that share them have none.
Count keys_and_values(Count h, Count k, Count d, bool values) { return (values ? 2 : 1) * product(h, k * d) + d; }

/// Embeddings of layers, p wide: a table V_p L p, a product h L p, a norm p; in each layer 2 h p and a norm h.
Count layer_embeddings(Config& c, const ModelSpec& m) {
  const Count h = m.hidden, p = number(c, "hidden_size_per_layer_input", 0), all = Count(m.layers) * p;
  if (p == Count(0)) return 0;
  return number(c, "vocab_size_per_layer_input") * all + product(h, all) + p + m.layers * (2 * h * p + h);
}

/// Gemma-3n carries n streams: products h^2 to make and to join n - 1 of them, and in each layer n h, n^2, n^3 and 2 h.
/// A product of rank r stands beside attention: 2 h r and a norm.
ModelSpec gemma3n(Config& c) {
  ModelSpec m = sizes(c);
  const Count h = m.hidden, a = m.heads, k = m.kv_heads, d = m.head_dim;
  const Count n = number(c, "altup_num_inputs"), r = number(c, "laurel_rank");
  const std::vector<std::uint64_t> wide = widths(c, m);
  const std::uint64_t shared = c.whole_from_zero("num_kv_shared_layers", max_layers);
  const Count streams = n * h + n * n + n * n * n + 2 * h;
  Decoder all;
  all.add(layer_embeddings(c, m) + 2 * (n - 1) * product(h, h));
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    all.add(2 * product(h, a * d) + d + feed_forward(h, wide[l], true, false) + 4 * h + streams + 2 * h * r + h);
    if (l + shared < m.layers) all.add(keys_and_values(h, k, d, true));
  }
  count_decoder(c, m, all, "layers that share keys and values");
  return m;
}

/// Gemma-4's layers that see all positions have wider heads, and may take their keys for values. A mixture stands
/// beside the feed-forward part: router h E + h + E, experts, three norms. Layers that share keys and values may be
/// twice as wide.
ModelSpec gemma4(Config& c) {
  ModelSpec m = sizes(c);
  const Count h = m.hidden, a = m.heads;
  const std::vector<std::uint64_t> wide = widths(c, m);
  const std::uint64_t shared = c.whole_from_zero("num_kv_shared_layers", max_layers);
  const bool doubled = truth(c, "use_double_wide_mlp"), keys_alone = truth(c, "attention_k_eq_v");
  auto names = layer_names(c, "layer_types", m.layers,
                           [](std::uint64_t l) { return (l + 1) % 6 != 0 ? "sliding_attention" : "full_attention"; });
  if (!names.empty()) names.back() = "full_attention";
  Decoder all;
  all.add(layer_embeddings(c, m));
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    const bool full = names[l] == "full_attention", shares = l + shared >= m.layers;
    const Count d = full ? number(c, "global_head_dim") : Count(m.head_dim);
    const Count k = full && keys_alone ? number(c, "num_global_key_value_heads", m.kv_heads) : Count(m.kv_heads);
    const Count f = doubled && shares ? 2 * Count(wide[l]) : Count(wide[l]);
    all.add(2 * product(h, a * d) + d + feed_forward(h, f, true, false) + 4 * h);
    if (!shares) all.add(keys_and_values(h, k, d, !(full && keys_alone)));
    if (truth(c, "enable_moe_block")) {
      const Experts mixture{number(c, "num_experts", 0), number(c, "top_k_experts", 0),
                            number(c, "moe_intermediate_size", 0)};
      const Count around = mixture.all + 4 * h;
      all.add(experts(h, mixture) + around, experts(h, mixture, true) + around);
    }
  }
  count_decoder(c, m, all, "layers with heads of different widths");
  return m;
}

}  // namespace

std::vector<Family> gemma_layer_families() {
  const Keys usual = usual_keys(), router = router_keys(), common = common_keys();
  return {
      {"gemma3n_text", {"Gemma3nForCausalLM"}, {gemma3n_keys, shared_keys, usual, router, common}, gemma3n},
      {"gemma4_text", {"Gemma4ForCausalLM"}, {gemma4_keys, shared_keys, usual, router, common}, gemma4},
  };
}

}  // namespace orrery::hf
