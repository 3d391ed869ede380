#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with mixtures and gates in attention, or routers of another kind than Programs have.
namespace orrery::hf {
namespace {

constexpr std::array afmoe_keys{
    read("vocab_size", "200192", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "6144", "ffn"),
    read("num_attention_heads", "16", "heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "16384", "max_positions"),
    read("moe_intermediate_size", "1408"),
    read("num_dense_layers", "1"),
    read("num_experts", "64"),
    read("num_experts_per_tok", "6"),
    read("num_shared_experts", "2"),
    no_effect("attention_bias"),
    no_effect("global_attn_every_n_layers"),
    no_effect("layer_types"),
    no_effect("load_balance_coeff"),
    no_effect("mup_enabled"),
    no_effect("num_expert_groups"),
    no_effect("num_limited_groups"),
    no_effect("route_norm"),
    no_effect("route_scale"),
    no_effect("score_func"),
    no_effect("use_grouped_mm"),
    no_effect("mlp_bias"),
};
constexpr std::array hy_keys{
    read("vocab_size", "120832", "vocabulary"),
    read("intermediate_size", "13312", "ffn"),
    read("num_hidden_layers", "80", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("num_experts", "192"),
    read("num_experts_per_tok", "8"),
    read("num_shared_experts", "1"),
    read("moe_intermediate_size", "1536"),
    read("first_k_dense_replace", "1"),
    read("mlp_layer_types", "null"),
    same_as("num_local_experts", "num_experts"),
    same_as("expert_hidden_dim", "moe_intermediate_size"),
    no_effect("mlp_bias"),
    no_effect("qk_norm"),
    no_effect("router_scaling_factor"),
    no_effect("route_norm"),
    no_effect("moe_router_use_sigmoid"),
    no_effect("moe_router_enable_expert_bias"),
    no_effect("enable_moe_fp32_combine"),
    no_effect("enable_attention_fp32_softmax"),
    no_effect("enable_lm_head_fp32"),
};
constexpr std::array exaone_keys{
    read("vocab_size", "102400", "vocabulary"),
    read("intermediate_size", "16384", "ffn"),
    read("num_hidden_layers", "32", "layers"),
    read("num_attention_heads", "32", "heads"),
    read("num_key_value_heads", "32", "kv_heads"),
    read("head_dim", "null", "head_dim"),
    read("max_position_embeddings", "2048", "max_positions"),
    read("num_experts", "64"),
    read("moe_intermediate_size", "1024"),
    no_effect("attention_bias"),
    no_effect("layer_types"),
    no_effect("sliding_window_pattern"),
    no_effect("is_moe_layer"),
    no_effect("use_qk_norm"),
};
constexpr std::array laguna_keys{
    read("vocab_size", "100352", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "8192", "ffn"),
    read("num_hidden_layers", "40", "layers"),
    read("num_attention_heads", "48", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("moe_intermediate_size", "512"),
    read("shared_expert_intermediate_size", "512"),
    read("num_experts_per_tok", "8"),
    read("num_experts", "256"),
    read("mlp_layer_types", "null"),
    read("gating", "true"),
    read("num_attention_heads_per_layer", "null"),
    no_effect("layer_types"),
    no_effect("moe_routed_scaling_factor"),
    no_effect("moe_apply_router_weight_on_input"),
    no_effect("moe_router_logit_softcapping"),
    no_effect("mlp_bias"),
};

/// The layers of mixtures: those that mlp_layer_types calls sparse, else all from the `first` on.
std::vector<std::string> mixtures(Config& c, const ModelSpec& m, std::uint64_t first) {
  return layer_names(c, "mlp_layer_types", m.layers,
                     [first](std::uint64_t l) { return l < first ? "dense" : "sparse"; });
}

/// AFMoE: a gate of h x a d in attention, four norms, a bias of choice for each expert.
ModelSpec afmoe(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden, f = number(c, "moe_intermediate_size");
  const Experts mixture{number(c, "num_experts"), number(c, "num_experts_per_tok"), f,
                        number(c, "num_shared_experts") * f};
  const std::uint64_t first = c.whole_from_zero("num_dense_layers", max_layers);
  const Count attention = grouped_attention(h, m.heads, m.kv_heads, m.head_dim, false, false) +
                          product(h, Count(m.heads) * m.head_dim) + 2 * Count(m.head_dim) + 4 * h;
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    all.add(attention);
    if (l < first) {
      all.add(feed_forward(h, m.ffn, true, false));
    } else {
      all.add(experts(h, mixture) + mixture.all, experts(h, mixture, true) + mixture.all);
    }
  }
  count_decoder(c, m, all, "gates in attention");
  return m;
}

/// Hunyuan-3 and EXAONE-MoE: norms of queries and keys, mixtures with shared experts behind the first layers.
ModelSpec mixed_layers(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden, f = number(c, "moe_intermediate_size");
  const Experts mixture{number(c, "num_experts"), number(c, "num_experts_per_tok"), f,
                        number(c, "num_shared_experts") * f};
  Decoder all;
  for (const std::string& kind : mixtures(c, m, c.whole_from_zero("first_k_dense_replace", max_layers))) {
    all.add(2 * h + decoder_attention(c, m) + 2 * Count(m.head_dim));
    if (kind == "dense") {
      all.add(feed_forward(h, m.ffn, true, false));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "a router of another kind");
  return m;
}

/// Laguna: a gate for each head, or for each feature; a number of heads for each layer; a bias of choice.
ModelSpec laguna(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  const Experts mixture{number(c, "num_experts"), number(c, "num_experts_per_tok"), number(c, "moe_intermediate_size"),
                        number(c, "shared_expert_intermediate_size")};
  const nlohmann::json* gating = c.find("gating");
  const bool by_head = gating != nullptr && (*gating == true || *gating == "per-head");
  const std::vector<std::uint64_t> heads = c.wholes("num_attention_heads_per_layer", max_width);
  const auto kinds = mixtures(c, m, 1);
  const bool bias = truth(c, "attention_bias");
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    const Count a = l < heads.size() ? heads[l] : m.heads;
    all.add(2 * h + grouped_attention(h, a, m.kv_heads, m.head_dim, bias, bias) + 2 * Count(m.head_dim) +
            product(h, by_head ? a : a * m.head_dim));
    if (kinds[l] == "dense") {
      all.add(feed_forward(h, m.ffn, true, false));
    } else {
      all.add(experts(h, mixture) + mixture.all, experts(h, mixture, true) + mixture.all);
    }
  }
  count_decoder(c, m, all, "gates in attention");
  return m;
}

}  // namespace

std::vector<Family> gated_mixture_families() {
  return with_tables(
      {
          {"afmoe", {"AfmoeForCausalLM"}, {afmoe_keys}, afmoe},
          {"hy_v3", {"HYV3ForCausalLM"}, {hy_keys}, mixed_layers},
          {"exaone_moe", {"ExaoneMoeForCausalLM"}, {exaone_keys, hy_keys}, mixed_layers},
          {"laguna", {"LagunaForCausalLM"}, {laguna_keys}, laguna},
      },
      {counted_keys(), usual_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
