#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/vision_language.hpp"

// Models of text and images with towers of their own. t is the width of the language model, v that of the tower, s the
// side of a square of patches that become one token; M = s^2 v.
namespace orrery::hf {
namespace {

constexpr std::array patches_keys{
    read("vision_config.in_channels", "3"),
    read("vision_config.patch_size", "14"),
    read("vision_config.spatial_merge_size", "2"),
    read("vision_config.temporal_patch_size", "2"),
    same_as("vision_config.in_chans", "vision_config.in_channels"),
    same_as("vision_config.spatial_patch_size", "vision_config.patch_size"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.num_heads"),
};
constexpr std::array qwen2_vl_keys{
    read("vision_config.depth", "32"),
    read("vision_config.embed_dim", "1280"),
    read("vision_config.hidden_size", "3584"),
    read("vision_config.mlp_ratio", "4"),
};
constexpr std::array qwen2_5_vl_keys{
    read("vision_config.depth", "32"),
    read("vision_config.hidden_size", "3584"),
    read("vision_config.intermediate_size", "3420"),
    read("vision_config.out_hidden_size", "3584"),
    no_effect("vision_config.tokens_per_second"),
    no_effect("vision_config.window_size"),
    no_effect("vision_config.fullatt_block_indexes"),
};
constexpr std::array qwen3_vl_keys{
    read("vision_config.depth", "27"),
    read("vision_config.hidden_size", "1152"),
    read("vision_config.intermediate_size", "4304"),
    read("vision_config.out_hidden_size", "3584"),
    read("vision_config.patch_size", "16"),
    read("vision_config.num_position_embeddings", "2304"),
    read("vision_config.deepstack_visual_indexes", "[8, 16, 24]"),
};
constexpr std::array qwen3_5_keys{
    read("vision_config.deepstack_visual_indexes", "[]"),
    no_effect("language_model_only"),
};
constexpr std::array glm4v_keys{
    read("vision_config.depth", "24"),
    read("vision_config.hidden_size", "1536"),
    read("vision_config.intermediate_size", "13696"),
    read("vision_config.out_hidden_size", "4096"),
    read("vision_config.image_size", "336"),
    read("vision_config.attention_bias", "false"),
    no_effect("image_start_token_id"),
    no_effect("image_end_token_id"),
    no_effect("video_start_token_id"),
    no_effect("video_end_token_id"),
};
constexpr std::array llama4_keys{
    read("vision_config.hidden_size", "768"),
    read("vision_config.intermediate_size", "5632"),
    read("vision_config.num_hidden_layers", "34"),
    read("vision_config.num_channels", "3"),
    read("vision_config.image_size", "448"),
    read("vision_config.patch_size", "14"),
    read("vision_config.vision_output_dim", "7680"),
    read("vision_config.projector_input_dim", "4096"),
    read("vision_config.projector_output_dim", "4096"),
    only("vision_config.multi_modal_projector_bias", "false", "biases in the projector"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.pixel_shuffle_ratio"),
    no_effect("vision_config.projector_dropout"),
    no_effect("vision_config.vision_feature_layer"),
    no_effect("vision_config.vision_feature_select_strategy"),
};
constexpr std::array mllama_keys{
    read("vision_config.hidden_size", "1280"),
    read("vision_config.intermediate_size", "5120"),
    read("vision_config.num_hidden_layers", "32"),
    read("vision_config.num_global_layers", "8"),
    read("vision_config.num_channels", "3"),
    read("vision_config.image_size", "448"),
    read("vision_config.patch_size", "14"),
    read("vision_config.vision_output_dim", "7680"),
    read("vision_config.max_num_tiles", "4"),
    read("vision_config.supported_aspect_ratios", "null"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.attention_heads"),
    no_effect("vision_config.intermediate_layers_indices"),
    no_effect("vision_config.max_aspect_ratio_id"),
};
constexpr std::array internvl_keys{
    read("downsample_ratio", "0.5"),
    read("vision_config.hidden_size", "1024"),
    read("vision_config.intermediate_size", "4096"),
    read("vision_config.num_hidden_layers", "24"),
    read("vision_config.num_channels", "3"),
    read("vision_config.image_size", "448"),
    read("vision_config.patch_size", "14"),
    read("vision_config.attention_bias", "false"),
    read("vision_config.use_qk_norm", "false"),
    read("vision_config.norm_type", "\"layer_norm\""),
    read("vision_config.use_mask_token", "false"),
    read("vision_config.use_absolute_position_embeddings", "true"),
    read("vision_config.use_mean_pooling", "true"),
    no_effect("vision_config.layer_scale_init_value"),
    no_effect("vision_config.projection_dropout"),
    no_effect("vision_config.model_type"),
    no_effect("vision_feature_layer"),
};

/// InternVL as its authors' own code writes it.
constexpr std::array internvl_chat_keys{
    read("llm_config", "null"),
    read("vision_config.attention_bias", "true"),
    same_as("vision_config.qkv_bias", "vision_config.attention_bias"),
    same_as("vision_config.qk_normalization", "vision_config.use_qk_norm"),
    no_effect("vision_config.initializer_factor"),
    no_effect("vision_config.use_bfloat16"),
    no_effect("dynamic_image_size"),
    no_effect("force_image_size"),
    no_effect("max_dynamic_patch"),
    no_effect("min_dynamic_patch"),
    no_effect("pad2square"),
    no_effect("ps_version"),
    no_effect("select_layer"),
    no_effect("system_message"),
    no_effect("template"),
    no_effect("use_backbone_lora"),
    no_effect("use_llm_lora"),
    no_effect("use_thumbnail"),
    no_effect("output_attentions"),
};

/// Two products that make a token of s x s patches: M^2 + M, M out + out.
Count merger(Count merged, Count out) { return product(merged, merged, true) + product(merged, out, true); }

Count merged_patches(Config& c) {
  const Count s = number(c, "vision_config.spatial_merge_size");
  return s * s;
}
/// Numbers in a patch of some frames.
Count pixels(Config& c) {
  const Count side = side_of(c, "vision_config.patch_size");
  return number(c, "vision_config.in_channels") * number(c, "vision_config.temporal_patch_size") * side * side;
}

ModelSpec qwen2_vl(Config& c) {
  const Count v = number(c, "vision_config.embed_dim"), merged = merged_patches(c) * v;
  const Count f = v * static_cast<std::uint64_t>(c.number("vision_config.mlp_ratio", 1.0, 64.0));
  return with_images(c, product(pixels(c), v) + number(c, "vision_config.depth") * bert_layer(v, f) + 2 * v +
                            merger(merged, number(c, "vision_config.hidden_size")));
}

/// Qwen2.5-VL's tower has rms norms and gates.
ModelSpec qwen2_5_vl(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), merged = merged_patches(c) * v;
  const Count layer = attention(v) + feed_forward(v, number(c, "vision_config.intermediate_size"), true, true) + 2 * v;
  return with_images(c, product(pixels(c), v) + number(c, "vision_config.depth") * layer + v +
                            merger(merged, number(c, "vision_config.out_hidden_size")));
}

/// Qwen3-VL has a table of positions, and gives the output of some layers to the language model through mergers of
/// their own, with norms of M.
ModelSpec qwen3_vl(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), merged = merged_patches(c) * v;
  const Count out = number(c, "vision_config.out_hidden_size");
  const Count layers = number(c, "vision_config.depth") * bert_layer(v, number(c, "vision_config.intermediate_size"));
  const Count given = c.wholes("vision_config.deepstack_visual_indexes", 1U << 20U).size();
  return with_images(c, product(pixels(c), v, true) + number(c, "vision_config.num_position_embeddings") * v + layers +
                            2 * v + merger(merged, out) + given * (2 * merged + merger(merged, out)));
}

/// GLM-4V's layers have gates of the output's width. A convolution of s x s, a product, a norm and gates of the tower's
/// feed-forward width join it to the language model.
ModelSpec glm4v(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), out = number(c, "vision_config.out_hidden_size");
  const Count side = side_of(c, "vision_config.image_size") / side_of(c, "vision_config.patch_size");
  const Count bias = truth(c, "vision_config.attention_bias") ? 3 * v : Count(0);
  const Count layer = attention(v, false) + bias + feed_forward(v, out, true, false) + 2 * v;
  const Count join = product(merged_patches(c) * v, out, true) + product(out, out) + 2 * out +
                     feed_forward(out, number(c, "vision_config.intermediate_size"), true, false);
  return with_images(
      c, product(pixels(c), v, true) + side * side * v + number(c, "vision_config.depth") * layer + 2 * v + join);
}

/// Llama-4's tower is CLIP's but for its adapter: f x i and o^2, then a product of its output with t.
ModelSpec llama4(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), f = number(c, "vision_config.intermediate_size");
  const Count patch = side_of(c, "vision_config.patch_size"), o = number(c, "vision_config.projector_output_dim");
  const Count side = side_of(c, "vision_config.image_size") / patch;
  const Count body = product(patch * patch * number(c, "vision_config.num_channels"), v) + v + (side * side + 1) * v +
                     4 * v + number(c, "vision_config.num_hidden_layers") * bert_layer(v, f);
  return with_images(c, body + product(f, number(c, "vision_config.projector_input_dim")) + product(o, o) +
                            product(number(c, "vision_config.vision_output_dim"), c.language().hidden));
}

/// Mllama's images are tiles in one of R - 1 shapes. Shapes have tables of positions: of tiles T v before and behind
/// the layers, of tiles' patches T (N + 1) v, each with a gate. Attention has no biases. Global layers have a gate for
/// each part.
ModelSpec mllama(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), f = number(c, "vision_config.intermediate_size");
  const Count patch = side_of(c, "vision_config.patch_size"), side = side_of(c, "vision_config.image_size") / patch;
  const Count rows = side * side + 1, tiles = number(c, "vision_config.max_num_tiles");
  const nlohmann::json* ratios = c.find("vision_config.supported_aspect_ratios");
  const Count shapes = ratios != nullptr && ratios->is_array() ? Count(ratios->size() + 1) : Count(9);
  const Count layer = attention(v, false) + feed_forward(v, f, false, true) + 4 * v;
  const Count global = number(c, "vision_config.num_global_layers");
  const Count tables = rows * v + 1 + shapes * tiles * rows * v + 2 * (shapes * tiles * v + 1);
  return with_images(c, v + product(patch * patch * number(c, "vision_config.num_channels"), v) + tables + 4 * v +
                            number(c, "vision_config.num_hidden_layers") * layer + global * (layer + 2) +
                            product(number(c, "vision_config.vision_output_dim"), c.language().hidden, true));
}

/// InternVL's layers scale their parts. s x s patches become a token: a norm of M, M t + t, t^2 + t.
ModelSpec internvl(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), t = c.language().hidden;
  const Count patch = side_of(c, "vision_config.patch_size"), side = side_of(c, "vision_config.image_size") / patch;
  const bool rms = c.choice("vision_config.norm_type", {"layer_norm", "rms_norm"}) == "rms_norm";
  const Count bias = truth(c, "vision_config.attention_bias") ? 4 * v : v;
  const Count norms = (truth(c, "vision_config.use_qk_norm") ? 2 * v : Count(0)) + (rms ? 2 * v : 4 * v);
  const Count layer = attention(v, false) + bias +
                      feed_forward(v, number(c, "vision_config.intermediate_size"), false, true) + norms + 2 * v;
  Count body = v + product(patch * patch * number(c, "vision_config.num_channels"), v, true) +
               number(c, "vision_config.num_hidden_layers") * layer;
  if (truth(c, "vision_config.use_mask_token")) body += v;
  if (truth(c, "vision_config.use_absolute_position_embeddings")) body += (side * side + 1) * v;
  if (!truth(c, "vision_config.use_mean_pooling")) body += 2 * v;
  const auto s = static_cast<std::uint64_t>(1.0 / c.number("downsample_ratio", 1e-3, 1.0) + 0.5);
  const Count merged = v * s * s;
  return with_images(c, body + 2 * merged + product(merged, t, true) + product(t, t, true));
}

}  // namespace

std::vector<Family> own_tower_families() {
  const auto qwen = [](std::string_view type, std::string_view name, std::vector<Keys> own,
                       ModelSpec (*reader)(Config&), std::string_view text, bool flat) {
    own.push_back(patches_keys);
    if (flat) {  // older files have the language model's keys beside those of the whole
      for (const Keys& keys : qwen2_vl_text_tables()) own.push_back(keys);
    }
    return vision_language(type, {name}, std::move(own), reader, {"text_config", text, "false", {}, flat});
  };
  return {
      qwen("qwen2_vl", "Qwen2VLForConditionalGeneration", {vision_language_keys(), qwen2_vl_keys}, qwen2_vl,
           "qwen2_vl_text", true),
      qwen("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", {vision_language_keys(), qwen2_5_vl_keys}, qwen2_5_vl,
           "qwen2_5_vl_text", true),
      qwen("qwen3_vl", "Qwen3VLForConditionalGeneration", {qwen3_vl_keys}, qwen3_vl, "qwen3_vl_text", false),
      qwen("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", {qwen3_vl_keys}, qwen3_vl, "qwen3_vl_moe_text", false),
      qwen("qwen3_5", "Qwen3_5ForConditionalGeneration", {qwen3_5_keys, qwen3_vl_keys}, qwen3_vl, "qwen3_5_text",
           false),
      qwen("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", {qwen3_5_keys, qwen3_vl_keys}, qwen3_vl,
           "qwen3_5_moe_text", false),
      qwen("glm4v", "Glm4vForConditionalGeneration", {glm4v_keys}, glm4v, "glm4v_text", false),
      qwen("glm4v_moe", "Glm4vMoeForConditionalGeneration", {glm4v_keys}, glm4v, "glm4v_moe_text", false),
      qwen("glm46v", "Glm46VForConditionalGeneration", {glm4v_keys}, glm4v, "glm4v_text", false),
      vision_language("llama4", {"Llama4ForConditionalGeneration"}, {llama4_keys}, llama4,
                      {"text_config", "llama4_text", "false"}),
      vision_language("mllama", {"MllamaForConditionalGeneration"}, {mllama_keys}, mllama,
                      {"text_config", "mllama_text_model", ""}),
      vision_language("internvl", {"InternVLForConditionalGeneration"}, {internvl_keys}, internvl,
                      {"text_config", "qwen2", "true"}),
      vision_language("internvl_chat", {"InternVLChatModel"}, {internvl_chat_keys, internvl_keys}, internvl,
                      {"llm_config", "llama", ""}),
  };
}

}  // namespace orrery::hf
