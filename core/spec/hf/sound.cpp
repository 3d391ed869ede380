#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/vision_language.hpp"

// Models of text and sound, and Gemma-4, which has images too. t is the width of the language model, v that of a tower.
namespace orrery::hf {
namespace {

constexpr std::array heard_keys{
    read("audio_config", "null"),
    read("audio_config.num_mel_bins", "128"),
    read("audio_config.max_source_positions", "1500"),
    no_effect("audio_config.model_type"),
    no_effect("audio_config.activation_function"),
    no_effect("audio_config.scale_embedding"),
    no_effect("audio_config.layerdrop"),
    no_effect("audio_config.encoder_layerdrop"),
    no_effect("audio_config.activation_dropout"),
    no_effect("audio_token_index"),
    no_effect("audio_token_id"),
    no_effect("hidden_size"),
    no_effect("vocab_size"),
};
constexpr std::array qwen2_audio_keys{
    read("audio_config.d_model", "1280"),
    read("audio_config.encoder_layers", "32"),
    read("audio_config.encoder_ffn_dim", "5120"),
    same_as("audio_config.num_hidden_layers", "audio_config.encoder_layers"),
    no_effect("audio_config.encoder_attention_heads"),
};
constexpr std::array voxtral_keys{
    read("audio_config.hidden_size", "1280"),       read("audio_config.num_hidden_layers", "32"),
    read("audio_config.intermediate_size", "5120"), no_effect("audio_config.num_attention_heads"),
    no_effect("audio_config.num_key_value_heads"),  no_effect("audio_config.head_dim"),
    no_effect("audio_config.vocab_size"),
};
constexpr std::array gemma4_keys{
    read("vision_config.hidden_size", "768"),
    read("vision_config.intermediate_size", "3072"),
    read("vision_config.num_hidden_layers", "16"),
    read("vision_config.num_attention_heads", "12"),
    read("vision_config.num_key_value_heads", "12"),
    read("vision_config.head_dim", "64"),
    read("vision_config.patch_size", "16"),
    read("vision_config.position_embedding_size", "10240"),
    only("vision_config.attention_bias", "false", "biases in the tower of images"),
    no_effect("vision_config.model_type"),
    no_effect("vision_config.hidden_activation"),
    no_effect("vision_config.global_head_dim"),
    no_effect("vision_config.pooling_kernel_size"),
    no_effect("vision_config.use_clipped_linears"),
    no_effect("vision_config.standardize"),
    no_effect("vision_config.max_position_embeddings"),
    no_effect("vision_config.default_output_length"),
    read("audio_config", "null"),
    read("audio_config.hidden_size", "1024"),
    read("audio_config.num_hidden_layers", "12"),
    read("audio_config.num_attention_heads", "8"),
    read("audio_config.subsampling_conv_channels", "[128, 32]"),
    read("audio_config.conv_kernel_size", "5"),
    read("audio_config.output_proj_dims", "1536"),
    no_effect("audio_config.model_type"),
    no_effect("audio_config.residual_weight"),
    no_effect("audio_config.attention_chunk_size"),
    no_effect("audio_config.attention_context_left"),
    no_effect("audio_config.attention_context_right"),
    no_effect("audio_config.attention_logit_cap"),
    no_effect("audio_config.attention_invalid_logits_value"),
    no_effect("audio_config.use_clipped_linears"),
    no_effect("audio_config.gradient_clipping"),
    no_effect("audio_token_id"),
    no_effect("audio_token_index"),
    no_effect("eoa_token_index"),
    no_effect("vision_soft_tokens_per_image"),
};

constexpr std::string_view voxtral_text =
    R"({"vocab_size": 131072, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 30,
        "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1e8,
        "head_dim": 128})";

constexpr const char* heard = "a tower of sound";

ModelSpec with_towers(Config& c, Count more, const char* what) {
  ModelSpec m = with_images(c, more);
  m.counted->because = std::string(what) + " beside the language model, which --part language reads alone";
  return m;
}

/// Whisper's encoder: two convolutions of width 3, positions, BERT's layers without biases of keys, a norm.
Count hears(Config& c, Count v, Count layers, Count f) {
  return product(3 * number(c, "audio_config.num_mel_bins"), v, true) + product(3 * v, v, true) +
         number(c, "audio_config.max_source_positions") * v + layers * (bert_layer(v, f) - v) + 2 * v;
}

/// One product with biases joins the encoder.
ModelSpec qwen2_audio(Config& c) {
  const Count v = number(c, "audio_config.d_model");
  return with_towers(c,
                     hears(c, v, number(c, "audio_config.encoder_layers"), number(c, "audio_config.encoder_ffn_dim")) +
                         product(v, c.language().hidden, true),
                     heard);
}

/// Two products, of which the first takes as many features together as the encoder's feed-forward layers have.
ModelSpec voxtral(Config& c) {
  const Count f = number(c, "audio_config.intermediate_size"), t = c.language().hidden;
  return with_towers(c,
                     hears(c, number(c, "audio_config.hidden_size"), number(c, "audio_config.num_hidden_layers"), f) +
                         product(f, t) + product(t, t),
                     heard);
}

/// Patches of p x p, a table of R positions for each side, layers with gates, four norms, and norms of queries and
/// keys; one product to the language model:
///
///     3 p^2 v + 2 R v + L (2 v a d + 2 v k d + 2 d + 3 v f + 4 v) + v t
Count gemma4_images(Config& c, Count t) {
  const auto at = [&](const char* key) { return number(c, (std::string("vision_config.") + key).c_str()); };
  const Count v = at("hidden_size"), patch = side_of(c, "vision_config.patch_size"), d = at("head_dim");
  const Count layer = grouped_attention(v, at("num_attention_heads"), at("num_key_value_heads"), d, false, false) +
                      2 * d + feed_forward(v, at("intermediate_size"), true, false) + 4 * v;
  return product(3 * patch * patch, v) + 2 * at("position_embedding_size") * v + at("num_hidden_layers") * layer +
         product(v, t);
}

/// Conformers (Gulati et al., 2020). Two convolutions of 3 x 3 with norms and a product make the stream. A layer has
/// attention with a product of distances, two feed-forward parts 4 v wide, a convolution of width k between products of
/// 2 v^2 and v^2, and nine norms. Two products lead to the language model.
///
///     9 c_0 + c_0 + 9 c_0 c_1 + c_1 + c_0 / 4 c_1 v + L (5 v^2 + d + 16 v^2 + 3 v^2 + k v + 9 v) + v o + o + o t
Count gemma4_sound(Config& c, Count t) {
  const auto at = [&](const char* key) { return number(c, (std::string("audio_config.") + key).c_str()); };
  std::vector<std::uint64_t> channels = c.wholes("audio_config.subsampling_conv_channels", 1U << 20U);
  channels.resize(2);
  const Count first = channels[0], second = channels[1], v = at("hidden_size"), out = at("output_proj_dims");
  const Count layer = 24 * v * v + v / at("num_attention_heads") + at("conv_kernel_size") * v + 9 * v;
  return 10 * first + 9 * first * second + second + product(first / 4 * second, v) + at("num_hidden_layers") * layer +
         product(v, out, true) + product(out, t);
}

/// A file without vision_config or audio_config has no such tower.
ModelSpec gemma4(Config& c) {
  const Count t = c.language().hidden;
  Count more = 0;
  if (c.given("vision_config") != nullptr) more += gemma4_images(c, t);
  if (c.given("audio_config") != nullptr) more += gemma4_sound(c, t);
  return with_towers(c, more, "towers of images and sound");
}

}  // namespace

std::vector<Family> sound_families() {
  return {
      vision_language("qwen2_audio", {"Qwen2AudioForConditionalGeneration"}, {heard_keys, qwen2_audio_keys},
                      qwen2_audio, {"text_config", "qwen2", ""}),
      vision_language("voxtral", {"VoxtralForConditionalGeneration"}, {heard_keys, voxtral_keys}, voxtral,
                      {"text_config", "llama", "", voxtral_text}),
      vision_language("gemma4", {"Gemma4ForConditionalGeneration"}, {gemma4_keys}, gemma4,
                      {"text_config", "gemma4_text", "true"}),
  };
}

}  // namespace orrery::hf
