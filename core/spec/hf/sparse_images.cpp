#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/hf/vision_language.hpp"
#include "core/spec/spec_check.hpp"

// Models of text and images around large mixtures: Kimi-K2.5, Step-3.7. t is the width of the language
// model, v that of the tower.
namespace orrery::hf {
namespace {

constexpr std::array kimi_keys{
    read("vision_config.patch_size", "14"),
    read("vision_config.pos_emb_height", "64"),
    read("vision_config.pos_emb_width", "64"),
    read("vision_config.num_hidden_layers", "27"),
    read("vision_config.hidden_size", "1152"),
    read("vision_config.intermediate_size", "4304"),
    read("vision_config.merge_kernel_size", "[2, 2]"),
    same_as("vision_config.vt_hidden_size", "vision_config.hidden_size"),
    same_as("vision_config.vt_num_hidden_layers", "vision_config.num_hidden_layers"),
    same_as("vision_config.vt_intermediate_size", "vision_config.intermediate_size"),
    same_as("vision_config.init_pos_emb_height", "vision_config.pos_emb_height"),
    same_as("vision_config.init_pos_emb_width", "vision_config.pos_emb_width"),
    no_effect("vision_config.vt_num_attention_heads"),
    no_effect("vision_config.init_pos_emb_time"),
    no_effect("vision_config.pos_emb_time"),
    no_effect("vision_config.pos_emb_type"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.mm_hidden_size"),
    no_effect("vision_config.mm_projector_type"),
    no_effect("vision_config.merge_type"),
    no_effect("vision_config.projector_hidden_act"),
    no_effect("vision_config.projector_ln_eps"),
    no_effect("vision_config.text_hidden_size"),
    no_effect("vision_config.video_attn_type"),
    no_effect("projection_hidden_size"),
    no_effect("projection_layer_norm_eps"),
    no_effect("media_placeholder_token_id"),
    no_effect("video_placeholder"),
    no_effect("use_unified_vision_chunk"),
};
constexpr std::array step_keys{
    read("projector_bias", "false"),
    read("vision_config.hidden_size", "1536"),
    read("vision_config.num_hidden_layers", "47"),
    read("vision_config.num_channels", "3"),
    read("vision_config.image_size", "728"),
    read("vision_config.patch_size", "14"),
    read("vision_config.mlp_ratio", "5.833333333333333"),
    same_as("vision_config.width", "vision_config.hidden_size"),
    same_as("vision_config.layers", "vision_config.num_hidden_layers"),
    no_effect("vision_config.heads"),
    no_effect("vision_config.intermediate_size"),
    no_effect("vision_config.layer_scale_init_value"),
    no_effect("vision_config.ls_init_value"),
    no_effect("vision_config.max_position_embeddings"),
    no_effect("vision_config.model_type"),
    no_effect("understand_projector_stride"),
    no_effect("vision_select_layer"),
    no_effect("hidden_size"),
    no_effect("im_start_token"),
    no_effect("im_end_token"),
    no_effect("im_patch_token"),
    no_effect("image_token_len"),
    no_effect("patch_token_len"),
};
constexpr std::array step_text_keys{
    read("vocab_size", "128815", "vocabulary"),
    read("intermediate_size", "11264", "ffn"),
    read("num_hidden_layers", "45", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "128000", "max_positions"),
    read("moe_intermediate_size", "1280"),
    read("n_routed_experts", "288"),
    read("num_experts_per_tok", "8"),
    read("share_expert_dim", "1280"),
    read("layer_types", "null"),
    read("mlp_layer_types", "null"),
    read("moe_layers_enum", "null"),
    read("num_sliding_attention_heads", "null"),
    read("attention_other_setting.num_attention_heads", "null"),
    same_as("num_attention_groups", "num_key_value_heads"),
    same_as("moe_num_experts", "n_routed_experts"),
    same_as("num_local_experts", "n_routed_experts"),
    same_as("moe_top_k", "num_experts_per_tok"),
    same_as("share_expert_dims", "share_expert_dim"),
    same_as("max_seq_len", "max_position_embeddings"),
    no_effect("attention_other_setting.attention_type"),
    no_effect("attention_other_setting.num_attention_groups"),
    no_effect("attention_other_setting.head_dim"),
    no_effect("attention_other_setting.true_head_dim"),
    no_effect("sliding_window"),
    no_effect("query_pre_attn_scalar"),
    no_effect("moe_router_scaling_factor"),
    no_effect("moe_router_activation"),
    no_effect("moe_every_n_layer"),
    no_effect("use_moe"),
    no_effect("use_moe_router_bias"),
    no_effect("use_head_wise_attn_gate"),
    no_effect("use_qk_norm"),
    no_effect("use_rope_layers"),
    no_effect("need_fp32_gate"),
    no_effect("norm_expert_weight"),
    no_effect("sink"),
    no_effect("swiglu_limits"),
    no_effect("swiglu_limits_shared"),
    no_effect("mtp_layer_types"),
    no_effect("mtp_mlp_layer_types"),
    no_effect("num_nextn_predict_layers"),
    no_effect("num_mtp_layers"),
    no_effect("partial_rotary_factors"),
    no_effect("yarn_only_types"),
    no_effect("att_impl_type"),
    no_effect("rms_norm_eps"),
    no_effect("rope_theta"),
    no_effect("rope_scaling"),
    no_effect("rope_parameters"),
    no_effect("zero_centered"),
};

/// Kimi-K2.5: a table of H x W positions, BERT's layers and a norm; a norm of v and two products join s squares of
/// patches, M = s v wide: M^2 + M, M t + t.
ModelSpec kimi_k25(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), side = side_of(c, "vision_config.patch_size");
  Count merged = v;
  for (const std::uint64_t s : c.wholes("vision_config.merge_kernel_size", 64)) merged = merged * s;
  const Count table = number(c, "vision_config.pos_emb_height") * number(c, "vision_config.pos_emb_width") * v;
  const Count layers =
      number(c, "vision_config.num_hidden_layers") * bert_layer(v, number(c, "vision_config.intermediate_size"));
  return with_images(c, product(3 * side * side, v, true) + table + layers + 4 * v + product(merged, merged, true) +
                            product(merged, c.language().hidden, true));
}

/// Step-3.7: layers that scale their parts; two convolutions of 3 x 3 that halve the sides and double the width; one
/// product 4 v t.
ModelSpec step3p7(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), patch = side_of(c, "vision_config.patch_size");
  const Count side = side_of(c, "vision_config.image_size") / patch;
  const auto f =
      static_cast<std::uint64_t>(c.number("vision_config.mlp_ratio", 0.01, 64.0) * static_cast<double>(v.value()));
  const Count body = product(patch * patch * number(c, "vision_config.num_channels"), v) + side * side * v + 2 * v +
                     number(c, "vision_config.num_hidden_layers") * (bert_layer(v, f) + 2 * v);
  return with_images(c, body + product(9 * v, 2 * v, true) + product(18 * v, 4 * v, true) +
                            product(4 * v, c.language().hidden, truth(c, "projector_bias")));
}

/// The mixtures: in mlp_layer_types, or listed in moe_layers_enum ("3,4,5"), or all but the first three.
std::vector<std::string> step_mixtures(Config& c, const ModelSpec& m) {
  const std::string list = c.none("moe_layers_enum") ? "" : "," + c.text("moe_layers_enum") + ",";
  return layer_names(c, "mlp_layer_types", m.layers, [&](std::uint64_t l) {
    const bool mixes = list.empty() ? l >= 3 : list.find("," + std::to_string(l) + ",") != std::string::npos;
    return mixes ? "sparse" : "dense";
  });
}

/// A gate of h for each head; layers that see a window have another number of heads.
ModelSpec step3p5(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads", .head_dim = "head_dim"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, d = m.head_dim;
  const Count near =
      number(c, "num_sliding_attention_heads", number(c, "attention_other_setting.num_attention_heads", m.heads));
  std::vector<std::string> names = c.texts("layer_types");  // with those of prediction modules at the end
  names.resize(m.layers, "full_attention");
  const Experts mixture{number(c, "n_routed_experts"), number(c, "num_experts_per_tok"),
                        number(c, "moe_intermediate_size"), number(c, "share_expert_dim")};
  const auto kinds = step_mixtures(c, m);
  const bool bias = truth(c, "attention_bias");
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    const Count a = names[l] == "sliding_attention" ? near : Count(m.heads);
    all.add(2 * h + grouped_attention(h, a, m.kv_heads, d, bias, bias) + 2 * d + product(h, a));
    if (kinds[l] == "dense") {
      all.add(feed_forward(h, m.ffn, true, truth(c, "mlp_bias")));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "gates in attention");
  return m;
}

}  // namespace

std::vector<Family> sparse_image_families() {
  const Keys usual = usual_keys(), router = router_keys(), common = common_keys();
  return {
      vision_language("kimi_k25", {"Kimi_K25ForConditionalGeneration", "KimiK25ForConditionalGeneration"}, {kimi_keys},
                      kimi_k25, {"text_config", "deepseek_v3", "true"}),
      vision_language("kimi_vl", {"KimiVLForConditionalGeneration"}, {kimi_keys}, kimi_k25,
                      {"text_config", "deepseek_v3", "false"}),
      vision_language("step3p7", {"Step3p7ForConditionalGeneration"}, {step_keys}, step3p7,
                      {"text_config", "step3p5", ""}),
      {"step3p5", {"Step3p5ForCausalLM"}, {step_text_keys, usual, router, common}, step3p5},
  };
}

}  // namespace orrery::hf
