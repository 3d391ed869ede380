#include "core/spec/hf/vision_language.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"

// Models of text and images whose towers are CLIP's, SigLIP's or Pixtral's. t is the width of the language model, v
// that of the tower.
namespace orrery::hf {
namespace {

constexpr std::array shared_keys{
    read("text_config", "null"),       read("vision_config", "null"),      read("tie_word_embeddings", "null"),
    no_effect("image_token_index"),    no_effect("image_token_id"),        no_effect("video_token_index"),
    no_effect("video_token_id"),       no_effect("vision_start_token_id"), no_effect("vision_end_token_id"),
    no_effect("vision_token_id"),      no_effect("image_seq_length"),      no_effect("image_grid_pinpoints"),
    no_effect("image_aspect_ratio"),   no_effect("vision_aspect_ratio"),   no_effect("vision_feature_select_strategy"),
    no_effect("projector_hidden_act"), no_effect("ignore_index"),          no_effect("use_image_newline_parameter"),
    no_effect("boi_token_index"),      no_effect("eoi_token_index"),       no_effect("initializer_factor"),
};
constexpr std::array llava_keys{
    read("multimodal_projector_bias", "true"),
    read("vision_feature_layer", "-2"),
    read("vision_config.model_type", "\"clip_vision_model\""),
    no_effect("vocab_size"),
    no_effect("hidden_size"),
};
constexpr std::array mistral3_keys{
    read("multimodal_projector_bias", "false"),
    read("spatial_merge_size", "2"),
    read("vision_feature_layer", "-1"),
    read("vision_config.model_type", "\"pixtral\""),
};
constexpr std::array gemma_keys{
    no_effect("mm_tokens_per_image"),
    no_effect("vision_feature_layer"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.num_image_tokens"),
    no_effect("vision_config.num_positions"),
    no_effect("vision_config.projector_hidden_act"),
    no_effect("vision_config.use_full_attention"),
    no_effect("vision_config.use_image_id"),
};
constexpr std::array paligemma_keys{
    read("projection_dim", "2048"), no_effect("vocab_size"),        no_effect("hidden_size"),
    no_effect("_vocab_size"),       no_effect("num_hidden_layers"),
};
constexpr std::array vipllava_keys{
    read("vision_feature_layer", "[-2, -5, -8, -11, 6]"),
    no_effect("projector_layernorm_eps"),
};
constexpr std::array video_keys{
    no_effect("spatial_pool_mode"),
    no_effect("spatial_pool_stride"),
    no_effect("video_seq_length"),
    no_effect("image_token_index"),
};
constexpr std::array aya_keys{
    read("downsample_factor", "2"),
    read("alignment_intermediate_size", "null"),
    read("vision_config.model_type", "\"siglip_vision_model\""),
    no_effect("vision_feature_layer"),
    no_effect("adapter_layer_norm_eps"),
    no_effect("alignment_activation_fn"),
};
constexpr std::array cohere_keys{read("alignment_intermediate_size", "36864")};
constexpr std::array idefics_keys{
    read("scale_factor", "2"),
    no_effect("use_cache"),
    no_effect("vocab_size"),
    no_effect("hidden_size"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.max_image_size"),
    no_effect("vision_config.size"),
    no_effect("vision_config.use_base_siglip"),
    no_effect("use_reentrant_checkpointing"),
    no_effect("qk_layer_norms"),
    no_effect("freeze_config"),
};

/// The tower that vision_config names. Without a vision_config it is `whole`, of CLIP's, SigLIP's or Pixtral's kind.
struct Chosen {
  TowerKind kind = TowerKind::clip;
  Vision sizes;
};
Chosen choose(Config& c, TowerKind kind, const Vision& whole) {
  if (c.given("vision_config") == nullptr) return {kind, whole};
  const std::string type =
      c.choice("vision_config.model_type", {"clip_vision_model", "siglip_vision_model", "pixtral"});
  kind = type == "pixtral" ? TowerKind::pixtral : type[0] == 's' ? TowerKind::siglip : TowerKind::clip;
  return {kind, read_vision(c, "vision_config.", class_sizes(kind))};
}

/// Features of several layers of the tower stand side by side where vision_feature_layer is a list.
Count feature_layers(Config& c) {
  const nlohmann::json* layers = c.find("vision_feature_layer");
  return layers != nullptr && layers->is_array() ? Count(layers->size()) : Count(1);
}

/// LLaVA's projector: v t + t, t^2 + t. LLaVA-NeXT and OneVision have a vector of t for the end of a row.
ModelSpec llava_with(Config& c, const Chosen& vision, Count more) {
  const Count t = c.language().hidden;
  const bool bias = truth(c, "multimodal_projector_bias");
  return with_images(c, tower(vision.kind, vision.sizes) + product(vision.sizes.h * feature_layers(c), t, bias) +
                            product(t, t, bias) + more);
}

// Language models of files that leave text_config out.
constexpr std::string_view mistral_small =
    R"({"hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 1e9, "sliding_window": null, "vocab_size": 131072})";
constexpr std::string_view gemma_2b =
    R"({"hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8,
        "num_key_value_heads": 1, "vocab_size": 257152})";

constexpr Vision clip_large{1024, 4096, 24, 3, 336, 14};
constexpr Vision siglip_so400m{1152, 4304, 26, 3, 384, 14, false};
constexpr Vision pixtral_large{1024, 4096, 24, 3, 1540, 14};

ModelSpec llava(Config& c) { return llava_with(c, choose(c, TowerKind::clip, clip_large), 0); }
ModelSpec llava_next(Config& c) { return llava_with(c, choose(c, TowerKind::clip, clip_large), c.language().hidden); }
ModelSpec llava_onevision(Config& c) {
  return llava_with(c, choose(c, TowerKind::siglip, siglip_so400m), c.language().hidden);
}

/// VipLLaVA takes features of several layers, behind a norm.
ModelSpec vipllava(Config& c) {
  const Chosen vision = choose(c, TowerKind::clip, clip_large);
  const Count t = c.language().hidden, wide = vision.sizes.h * feature_layers(c);
  return with_images(c, tower(vision.kind, vision.sizes) + 2 * wide + product(wide, t, true) + product(t, t, true));
}

/// Aya Vision and Command A Vision take s x s patches together, M = s^2 v, in gates g / 2 wide: M g + g, g / 2 t + t.
/// Aya has a norm of M.
ModelSpec pixels_of_cohere(Config& c, const Vision& whole, bool norm) {
  const Chosen vision = choose(c, TowerKind::siglip, whole);
  const Count t = c.language().hidden, s = number(c, "downsample_factor"), merged = s * s * vision.sizes.h;
  const Count gates = number(c, "alignment_intermediate_size", t);
  return with_images(c, tower(vision.kind, vision.sizes) + (norm ? 2 * merged : Count(0)) +
                            product(merged, gates, true) + product(gates / 2, t, true));
}
constexpr Vision aya_tower{1152, 4304, 26, 3, 384, 14, false};
constexpr Vision cohere_tower{1152, 3072, 27, 3, 512, 16};
ModelSpec aya(Config& c) { return pixels_of_cohere(c, aya_tower, true); }
ModelSpec cohere2_vision(Config& c) { return pixels_of_cohere(c, cohere_tower, false); }

/// Mistral-3 merges s x s patches before LLaVA's projector: a norm of v and a product s^2 v^2.
ModelSpec mistral3(Config& c) {
  const Chosen vision = choose(c, TowerKind::pixtral, pixtral_large);
  const Count v = vision.sizes.h, s = number(c, "spatial_merge_size");
  return llava_with(c, vision, v + product(v * s * s, v));
}

/// Gemma-3's projector has a norm of v and one product v t.
ModelSpec gemma3(Config& c) {
  const Vision vision = read_vision(c, "vision_config.", class_sizes(TowerKind::siglip));
  return with_images(c, tower(TowerKind::siglip, vision) + product(vision.h, c.language().hidden) + vision.h);
}

/// PaliGemma's projector is one product with biases.
ModelSpec paligemma(Config& c) {
  const Vision absent =
      c.given("vision_config") == nullptr ? Vision{1152, 4096, 27, 3, 224, 14, false} : class_sizes(TowerKind::siglip);
  const Vision vision = read_vision(c, "vision_config.", absent);
  return with_images(c, tower(TowerKind::siglip, vision) + product(vision.h, number(c, "projection_dim"), true));
}

/// Idefics-3 and SmolVLM take s x s patches together in one product s^2 v t.
ModelSpec idefics3(Config& c) {
  Vision absent{1152, 3072, 12, 3, 224, 32, false};
  Vision vision = read_vision(c, "vision_config.", absent);
  vision.head = false;
  const Count s = number(c, "scale_factor");
  return with_images(c, tower(TowerKind::siglip, vision) + product(vision.h * s * s, c.language().hidden));
}

}  // namespace

ModelSpec with_images(Config& c, Count more) {
  ModelSpec m = c.language();
  const std::uint64_t all = parameter_count(m), active = active_parameter_count(m);
  std::string because = "a tower of images beside the language model, which --part language reads alone";
  m.counted = CountedOnly{(more + all).value(), active < all ? (more + active).value() : 0, std::move(because)};
  return m;
}

Keys vision_language_keys() { return shared_keys; }

Family vision_language(std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                       ModelSpec (*reader)(Config&), Part language) {
  own.insert(own.end(), {shared_keys, tower_keys(), common_keys()});
  return Family{type, std::move(classes), std::move(own), reader, language, Family::Heads::unknown};
}

std::vector<Family> vision_language_families() {
  return {
      vision_language("llava", {"LlavaForConditionalGeneration"}, {llava_keys}, llava,
                      {"text_config", "llama", "false"}),
      vision_language("llava_next", {"LlavaNextForConditionalGeneration"}, {llava_keys}, llava_next,
                      {"text_config", "llama", "false"}),
      vision_language("llava_onevision", {"LlavaOnevisionForConditionalGeneration"}, {llava_keys}, llava_onevision,
                      {"text_config", "qwen2", "false"}),
      vision_language("llava_next_video", {"LlavaNextVideoForConditionalGeneration"}, {video_keys, llava_keys},
                      llava_next, {"text_config", "llama", "false"}),
      vision_language("vipllava", {"VipLlavaForConditionalGeneration"}, {vipllava_keys, llava_keys}, vipllava,
                      {"text_config", "llama", "false"}),
      vision_language("aya_vision", {"AyaVisionForConditionalGeneration"}, {aya_keys}, aya,
                      {"text_config", "cohere2", "true"}),
      vision_language("cohere2_vision", {"Cohere2VisionForConditionalGeneration"}, {cohere_keys, aya_keys},
                      cohere2_vision, {"text_config", "cohere2", "true"}),
      vision_language("mistral3", {"Mistral3ForConditionalGeneration"}, {mistral3_keys}, mistral3,
                      {"text_config", "mistral", "true", mistral_small}),
      vision_language("gemma3", {"Gemma3ForConditionalGeneration"}, {gemma_keys}, gemma3,
                      {"text_config", "gemma3_text", "true"}),
      vision_language("paligemma", {"PaliGemmaForConditionalGeneration"}, {paligemma_keys, gemma_keys}, paligemma,
                      {"text_config", "gemma", "true", gemma_2b}),
      vision_language("idefics3", {"Idefics3ForConditionalGeneration"}, {idefics_keys}, idefics3,
                      {"text_config", "llama", "false"}),
      vision_language("smolvlm", {"SmolVLMForConditionalGeneration"}, {idefics_keys}, idefics3,
                      {"text_config", "llama", "false"}),
  };
}

}  // namespace orrery::hf
