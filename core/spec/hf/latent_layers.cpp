#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Latent attention in layers of another build: two in each layer, or few between layers of linear attention.
namespace orrery::hf {
namespace {

constexpr std::array longcat_keys{
    read("vocab_size", "131072"),
    read("hidden_size", "6144"),
    read("num_layers", "28", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("max_position_embeddings", "131072"),
    read("ffn_hidden_size", "12288"),
    read("q_lora_rank", "1536"),
    read("kv_lora_rank", "512"),
    read("qk_nope_head_dim", "128"),
    read("qk_rope_head_dim", "64"),
    read("v_head_dim", "128"),
    read("moe_topk", "12"),
    read("n_routed_experts", "512"),
    read("zero_expert_num", "256"),
    read("expert_ffn_hidden_size", "2048"),
    read("router_bias", "false"),
    read("tie_word_embeddings", "false"),
    only("attention_bias", "false", "biases in latent attention"),
    only("zero_expert_type", "\"identity\"", "another kind of experts that do nothing"),
    same_as("num_hidden_layers", "num_layers"),
    same_as("intermediate_size", "ffn_hidden_size"),
    same_as("moe_intermediate_size", "expert_ffn_hidden_size"),
    same_as("num_experts_per_tok", "moe_topk"),
    same_as("num_local_experts", "n_routed_experts"),
    no_effect("attention_method"),
    no_effect("mla_scale_q_lora"),
    no_effect("mla_scale_kv_lora"),
    no_effect("norm_topk_prob"),
    no_effect("num_key_value_heads"),
    no_effect("head_dim"),
    no_effect("qk_head_dim"),
    no_effect("hidden_act"),
    no_effect("rms_norm_eps"),
    no_effect("rope_theta"),
    no_effect("rope_scaling"),
    no_effect("rope_parameters"),
    no_effect("routed_scaling_factor"),
};

constexpr std::array kimi_keys{
    read("vocab_size", "163840"),
    read("hidden_size", "2304"),
    read("intermediate_size", "9216"),
    read("moe_intermediate_size", "1024"),
    read("num_hidden_layers", "27", "layers"),
    read("num_attention_heads", "32", "heads"),
    read("num_shared_experts", "1"),
    read("num_experts", "256"),
    read("num_experts_per_token", "8"),
    read("kv_lora_rank", "512"),
    read("q_lora_rank", "null"),
    read("qk_rope_head_dim", "64"),
    read("qk_nope_head_dim", "128"),
    read("v_head_dim", "128"),
    read("model_max_length", "1048576"),
    read("tie_word_embeddings", "false"),
    read("first_k_dense_replace", "1"),
    read("moe_layer_freq", "1"),
    read("mlp_layer_types", "null"),
    read("layer_types", "null"),
    read("linear_attn_config.full_attn_layers", "null"),
    read("linear_attn_config.kda_layers", "null"),
    read("linear_attn_config.head_dim", "128"),
    read("linear_attn_config.num_heads", "32"),
    read("linear_attn_config.short_conv_kernel_size", "4"),
    same_as("linear_head_dim", "linear_attn_config.head_dim"),
    same_as("linear_num_heads", "linear_attn_config.num_heads"),
    same_as("linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"),
    same_as("max_position_embeddings", "model_max_length"),
    same_as("num_experts_per_tok", "num_experts_per_token"),
    same_as("num_local_experts", "num_experts"),
    same_as("n_shared_experts", "num_shared_experts"),
    only("attention_bias", "false", "biases in latent attention"),
    no_effect("num_key_value_heads"),
    no_effect("head_dim"),
    no_effect("hidden_act"),
    no_effect("rms_norm_eps"),
    no_effect("routed_scaling_factor"),
    no_effect("num_expert_group"),
    no_effect("n_group"),
    no_effect("topk_group"),
    no_effect("use_grouped_topk"),
    no_effect("moe_renormalize"),
    no_effect("norm_topk_prob"),
    no_effect("moe_router_activation_func"),
    no_effect("mla_use_nope"),
    no_effect("num_nextn_predict_layers"),
};

struct Latent {
  Count queries, keys, rope, plain, values;
};
Latent latent_of(Config& c) {
  return {number(c, "q_lora_rank", 0), number(c, "kv_lora_rank"), number(c, "qk_rope_head_dim"),
          number(c, "qk_nope_head_dim"), number(c, "v_head_dim")};
}

/// h q + q + q a (d + r), or h a (d + r); h (u + r) + u; u a (d + e); a e h.
Count latent_attention(const Latent& l, Count h, Count a) {
  const Count wide = a * (l.plain + l.rope);
  const Count made =
      l.queries > Count(0) ? product(h, l.queries) + l.queries + product(l.queries, wide) : product(h, wide);
  return made + product(h, l.keys + l.rope) + l.keys + product(l.keys, a * (l.plain + l.values)) +
         product(a * l.values, h);
}

/// LongCat-Flash has two attentions, two feed-forward parts and a mixture in each layer. Some experts give back what
/// they get; the library's class has rows of gates and products for them too.
ModelSpec longcat(Config& c) {
  ModelSpec m = shape(c, {.layers = "num_layers", .ffn = "ffn_hidden_size"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, f = number(c, "expert_ffn_hidden_size"), idle = number(c, "zero_expert_num");
  const Count all_experts = number(c, "n_routed_experts");
  const Count around = 2 * (latent_attention(latent_of(c), h, m.heads) + feed_forward(h, m.ffn, true, false) + 2 * h) +
                       product(h, all_experts + idle, truth(c, "router_bias"));
  Decoder all;
  all.add(m.layers * (around + (all_experts + idle) * 2 * h * f + all_experts * h * f),
          m.layers * (around + number(c, "moe_topk") * 3 * h * f));
  count_decoder(c, m, all, "two attentions in each layer");
  return m;
}

/// Kimi Linear: most layers have linear attention with n heads of d, w = n d, and kernel k:
///
///     3 h w + 3 w k + (w + n + h d + d w) + h n + (h d + d w) + d + w h
///
/// These are queries, keys and values; their convolution; the gate that forgets; its strength; the gate of the output;
/// a norm; the output.
ModelSpec kimi_linear(Config& c) {
  ModelSpec m = shape(c, {.positions = "model_max_length"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, n = number(c, "linear_attn_config.num_heads"), d = number(c, "linear_attn_config.head_dim");
  const Count w = n * d, narrow = product(h, d) + product(d, w);
  const Count linear = 3 * product(h, w) + 3 * w * number(c, "linear_attn_config.short_conv_kernel_size") + w + n +
                       product(h, n) + 2 * narrow + d + product(w, h);
  const std::vector<std::uint64_t> full = c.wholes("linear_attn_config.full_attn_layers", max_layers);
  const bool listed = !c.none("linear_attn_config.full_attn_layers");
  const auto names = layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    const bool attends = listed ? std::find(full.begin(), full.end(), l + 1) != full.end() : l > 0 && l % 4 == 0;
    return attends ? "full_attention" : "linear_attention";
  });
  const std::uint64_t first = c.whole_from_zero("first_k_dense_replace", max_layers);
  const std::uint64_t every = c.whole("moe_layer_freq", max_layers);
  const auto kinds = layer_names(c, "mlp_layer_types", m.layers,
                                 [&](std::uint64_t l) { return l >= first && l % every == 0 ? "sparse" : "dense"; });
  const Count f = number(c, "moe_intermediate_size");
  const Experts mixture{number(c, "num_experts"), number(c, "num_experts_per_token"), f,
                        number(c, "num_shared_experts") * f};
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    all.add(2 * h + (names[l] == "full_attention" ? latent_attention(latent_of(c), h, m.heads) : linear));
    if (kinds[l] == "dense") {
      all.add(feed_forward(h, m.ffn, true, false));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "linear attention");
  return m;
}

}  // namespace

std::vector<Family> latent_layer_families() {
  const Keys rotary = rotary_keys(), router = router_keys(), common = common_keys();
  return {
      {"longcat_flash", {"LongcatFlashForCausalLM"}, {longcat_keys, router, common}, longcat},
      {"kimi_linear", {"KimiLinearForCausalLM"}, {kimi_keys, rotary, router, common}, kimi_linear},
  };
}

}  // namespace orrery::hf
