#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Encoders with decoders that attend to them: T5, BART and those that follow them, Whisper.
namespace orrery::hf {
namespace {

constexpr std::array t5_keys{
    read("vocab_size", "32128", "vocabulary"),
    read("d_model", "512", "hidden"),
    read("d_kv", "64", "head_dim"),
    read("d_ff", "2048", "ffn"),
    read("num_layers", "6", "layers"),
    read("num_decoder_layers", "null"),
    read("num_heads", "8", "heads"),
    read("relative_attention_num_buckets", "32"),
    read("feed_forward_proj", "\"relu\""),
    no_effect("is_encoder_decoder"),  // its class says that
    same_as("hidden_size", "d_model"),
    same_as("num_attention_heads", "num_heads"),
    same_as("num_hidden_layers", "num_layers"),
    no_effect("head_dim"),
    read("tie_word_embeddings", "true"),
    no_effect("relative_attention_max_distance"),
    no_effect("dropout_rate"),
    no_effect("classifier_dropout"),
    no_effect("layer_norm_epsilon"),
    no_effect("initializer_factor"),
    no_effect("dense_act_fn"),
    no_effect("is_gated_act"),
    no_effect("is_decoder"),
    no_effect("n_positions"),
    no_effect("scalable_attention"),
};
constexpr std::array mt5_keys{
    read("vocab_size", "250112", "vocabulary"),  read("d_ff", "1024", "ffn"),
    read("num_layers", "8", "layers"),           read("num_heads", "6", "heads"),
    read("feed_forward_proj", "\"gated-gelu\""),
};
constexpr std::array bart_keys{
    read("vocab_size", "50265", "vocabulary"),
    read("max_position_embeddings", "1024", "max_positions"),
    read("d_model", "1024", "hidden"),
    read("encoder_layers", "12", "layers"),
    read("encoder_ffn_dim", "4096", "ffn"),
    read("encoder_attention_heads", "16", "heads"),
    read("decoder_layers", "12"),
    read("decoder_ffn_dim", "4096"),
    read("tie_word_embeddings", "true"),
    only("is_encoder_decoder", "true", "an encoder alone"),
    same_as("hidden_size", "d_model"),
    same_as("num_hidden_layers", "encoder_layers"),
    same_as("num_attention_heads", "encoder_attention_heads"),
    no_effect("num_key_value_heads"),
    no_effect("decoder_attention_heads"),
    no_effect("encoder_layerdrop"),
    no_effect("decoder_layerdrop"),
    no_effect("activation_function"),
    no_effect("activation_dropout"),
    no_effect("dropout"),
    no_effect("classifier_dropout"),
    no_effect("classif_dropout"),
    no_effect("init_std"),
    no_effect("scale_embedding"),
    no_effect("normalize_before"),
    no_effect("normalize_embedding"),
    no_effect("add_final_layer_norm"),
    no_effect("add_bias_logits"),
    no_effect("static_position_embeddings"),
    no_effect("extra_pos_embeddings"),
    no_effect("force_bos_token_to_be_generated"),
    no_effect("is_decoder"),
    no_effect("save_step"),
};
constexpr std::array marian_keys{
    read("vocab_size", "58101", "vocabulary"),
    read("decoder_vocab_size", "null"),
    only("share_encoder_decoder_embeddings", "true", "a table for each of encoder and decoder"),
};
constexpr std::array m2m_keys{read("vocab_size", "128112", "vocabulary")};
constexpr std::array blenderbot_keys{
    read("vocab_size", "8008", "vocabulary"),
    read("max_position_embeddings", "128", "max_positions"),
    read("d_model", "2560", "hidden"),
    read("encoder_layers", "2", "layers"),
    read("encoder_ffn_dim", "10240", "ffn"),
    read("encoder_attention_heads", "32", "heads"),
    read("decoder_layers", "24"),
    read("decoder_ffn_dim", "10240"),
};
constexpr std::array blenderbot_small_keys{
    read("max_position_embeddings", "512", "max_positions"),
    read("d_model", "512", "hidden"),
    read("encoder_layers", "8", "layers"),
    read("encoder_ffn_dim", "2048", "ffn"),
    read("decoder_layers", "8"),
    read("decoder_ffn_dim", "2048"),
};
constexpr std::array whisper_keys{
    read("vocab_size", "51865", "vocabulary"),
    read("num_mel_bins", "80"),
    read("d_model", "384", "hidden"),
    read("encoder_layers", "4", "layers"),
    read("encoder_ffn_dim", "1536", "ffn"),
    read("encoder_attention_heads", "6", "heads"),
    read("decoder_layers", "4"),
    read("decoder_ffn_dim", "1536"),
    read("max_source_positions", "1500"),
    read("max_target_positions", "448", "max_positions"),
    no_effect("max_position_embeddings"),
    no_effect("use_weighted_layer_sum"),
    no_effect("classifier_proj_size"),
    no_effect("apply_spec_augment"),
    no_effect("mask_time_prob"),
    no_effect("mask_time_length"),
    no_effect("mask_time_min_masks"),
    no_effect("mask_feature_prob"),
    no_effect("mask_feature_length"),
    no_effect("mask_feature_min_masks"),
    no_effect("median_filter_width"),
    no_effect("alignment_heads"),
    no_effect("lang_ids"),
    no_effect("forced_decoder_ids"),
};

constexpr const char* reason = "an encoder and a decoder";

/// T5: attention 4 h a d without biases, two products or gates, rms norms of h. Distances have R biases for each head,
/// in the first layer of each side (UMT5: in every layer). Where a file says that the head is not the table, released
/// weights have a head of their own (flan-t5, mt5), although version 5.24 of the library ties it in any case.
///
///     V h + L (A + F + 2 h) + D (2 A + F + 3 h) + 2 h + 2 R a
ModelSpec t5(Config& c) {
  ModelSpec m = shape(c, {"num_layers", "d_model", "num_heads", nullptr, "d_kv", "d_ff", "vocab_size", nullptr});
  const Count h = m.hidden, layers = m.layers;
  const Count decoders = number(c, "num_decoder_layers", layers);
  const bool gated = c.text("feed_forward_proj").starts_with("gated");
  const Count a = 4 * product(h, Count(m.heads) * m.head_dim), f = feed_forward(h, m.ffn, gated, false);
  const Count distances = number(c, "relative_attention_num_buckets") * m.heads;
  const bool everywhere = c.family().type == "umt5";
  const Count encoder = layers * (a + f + 2 * h) + h + distances * (everywhere ? layers : Count(1));
  const Count decoder = decoders * (2 * a + f + 3 * h) + h + distances * (everywhere ? decoders : Count(1));
  const bool alone = is_class(c, "T5EncoderModel") || is_class(c, "MT5EncoderModel") || is_class(c, "UMT5EncoderModel");
  const Count table = Count(m.vocabulary) * h, head = truth(c, "tie_word_embeddings") ? Count(0) : table;
  count(c, m, table + encoder, alone ? Count(0) : decoder + head, reason);
  return m;
}

/// What types that follow BART have around their layers.
struct Around {
  Count ahead = 0;    ///< rows of the positions' tables ahead of the first
  bool table = true;  ///< positions have a table, one on each side
  bool first = true;  ///< a norm behind each embedding
  bool last = false;  ///< a norm behind the last layer of each side
};

/// A layer of the decoder has a second attention with a norm.
Count decoder_layers(Config& c, Count h) {
  return number(c, "decoder_layers") * (bert_layer(h, number(c, "decoder_ffn_dim")) + attention(h) + 2 * h);
}

ModelSpec like_bart(Config& c, const Around& around) {
  ModelSpec m = shape(c, {"encoder_layers", "d_model", "encoder_attention_heads", nullptr, nullptr, "encoder_ffn_dim"});
  const Count h = m.hidden, table = Count(m.vocabulary) * h;
  const Count rows = around.table ? Count(m.max_positions) + around.ahead : Count(0);
  const Count norms = (around.first ? 2 : 0) + (around.last ? 2U : 0U);
  const Count body = table + 2 * rows * h + norms * 2 * h + m.layers * bert_layer(h, m.ffn) + decoder_layers(c, h);
  count(c, m, body, truth(c, "tie_word_embeddings") ? Count(0) : table, reason);
  return m;
}

ModelSpec bart(Config& c) { return like_bart(c, {.ahead = 2}); }
ModelSpec mbart(Config& c) { return like_bart(c, {.ahead = 2, .last = true}); }
ModelSpec pegasus(Config& c) { return like_bart(c, {.first = false, .last = true}); }
ModelSpec m2m(Config& c) { return like_bart(c, {.table = false, .first = false, .last = true}); }
ModelSpec blenderbot_small(Config& c) { return like_bart(c, {}); }
ModelSpec marian(Config& c) {
  if (!c.none("decoder_vocab_size") && number(c, "decoder_vocab_size") != number(c, "vocab_size") && c.good())
    c.error("decoder_vocab_size", "hf.unsupported", "encoder and decoder have different vocabularies");
  return like_bart(c, {.first = false});
}

/// Whisper: two convolutions of 3 steps, 3 b h + h and 3 h^2 + h; tables of both sides' positions; BART's layers, whose
/// keys have no biases, with a norm behind the last. b bins of the spectrum.
ModelSpec whisper(Config& c) {
  ModelSpec m = shape(c, {"encoder_layers", "d_model", "encoder_attention_heads", nullptr, nullptr, "encoder_ffn_dim",
                          "vocab_size", "max_target_positions"});
  const Count h = m.hidden, table = Count(m.vocabulary) * h;
  const Count hears = product(3 * number(c, "num_mel_bins"), h, true) + product(3 * h, h, true);
  const Count rows = number(c, "max_source_positions") + m.max_positions;
  const Count keys = Count(m.layers) + 2 * number(c, "decoder_layers");
  const Count body =
      table + hears + rows * h + m.layers * bert_layer(h, m.ffn) + decoder_layers(c, h) + 4 * h - keys * h;
  count(c, m, body, truth(c, "tie_word_embeddings") ? Count(0) : table, reason);
  return m;
}

}  // namespace

std::vector<Family> encoder_decoder_families() {
  const auto family = [](std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                         ModelSpec (*reader)(Config&)) {
    own.push_back(common_keys());
    return Family{type, std::move(classes), std::move(own), reader, {}, Family::Heads::unknown};
  };
  return {
      family("t5", {"T5ForConditionalGeneration", "T5WithLMHeadModel", "T5EncoderModel"}, {t5_keys}, t5),
      family("mt5", {"MT5ForConditionalGeneration", "MT5EncoderModel"}, {mt5_keys, t5_keys}, t5),
      family("umt5", {"UMT5ForConditionalGeneration", "UMT5EncoderModel"}, {mt5_keys, t5_keys}, t5),
      family("bart", {"BartForConditionalGeneration", "BartModel"}, {bart_keys}, bart),
      family("mbart", {"MBartForConditionalGeneration", "MBartModel"}, {bart_keys}, mbart),
      family("pegasus", {"PegasusForConditionalGeneration"}, {bart_keys}, pegasus),
      family("marian", {"MarianMTModel"}, {marian_keys, bart_keys}, marian),
      family("m2m_100", {"M2M100ForConditionalGeneration"}, {m2m_keys, bart_keys}, m2m),
      family("blenderbot", {"BlenderbotForConditionalGeneration"}, {blenderbot_keys, bart_keys}, pegasus),
      family("blenderbot-small", {"BlenderbotSmallForConditionalGeneration"}, {blenderbot_small_keys, bart_keys},
             blenderbot_small),
      family("whisper", {"WhisperForConditionalGeneration"}, {whisper_keys, bart_keys}, whisper),
  };
}

}  // namespace orrery::hf
