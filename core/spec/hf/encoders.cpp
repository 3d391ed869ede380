#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// BERT and ViT, and types that are the same under another name.
namespace orrery::hf {
namespace {

/// BERT and ViT.
constexpr std::array encoder{
    read("num_hidden_layers", "12", "layers"),
    read("hidden_size", "768"),
    read("num_attention_heads", "12", "heads"),
    read("intermediate_size", "3072"),
    read("layer_norm_eps", "1e-12"),
    read("hidden_act", "\"gelu\""),
    no_effect("hidden_dropout_prob"),
    no_effect("attention_probs_dropout_prob"),
};

constexpr std::array bert_table{
    read("vocab_size", "30522"),
    read("max_position_embeddings", "512"),
    read("type_vocab_size", "2"),
    only("position_embedding_type", "\"absolute\"", "positions relative to each other"),
    only("is_decoder", "false", "BERT as a decoder"),
    only("tie_word_embeddings", "true", "a head that is not the word table"),
    no_effect("classifier_dropout"),
    // These keys belong to a pooler, which the class with the head for masked words does not have.
    no_effect("directionality"),
    no_effect("pooler_fc_size"),
    no_effect("pooler_num_attention_heads"),
    no_effect("pooler_num_fc_layers"),
    no_effect("pooler_size_per_head"),
    no_effect("pooler_type"),
};

constexpr std::array vit_keys{
    read("image_size", "224", "image.size"),
    read("patch_size", "16", "image.patch"),
    read("num_channels", "3"),
    read("id2label", "null"),
    read("num_labels", "2"),
    read("qkv_bias", "true"),
    // These keys belong to heads and poolers that the classifier does not have.
    no_effect("encoder_stride"),
    no_effect("pooler_act"),
    no_effect("pooler_output_size"),
};

/// Masked Siamese networks: ViT, with a head on its class token.
constexpr std::array vit_msn_keys{
    read("layer_norm_eps", "1e-6"),
};

constexpr std::array ernie_keys{
    only("use_task_id", "false", "an embedding of tasks"),
    no_effect("task_type_vocab_size"),
};

ModelSpec encoder_layers(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = c.whole("num_attention_heads", max_width);
  m.kv_heads = m.heads;
  heads_divide(c, m, "num_attention_heads", "hidden_size");
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("intermediate_size", max_width);
  m.norm_epsilon = c.number("layer_norm_eps", 0.0, 1.0);
  m.norm = Norm::layer_norm;
  m.activation = activation(c, "hidden_act", Gate::without);
  m.positions = PositionEncoding::learned;
  m.biases = Biases::of_layers(true);
  return m;
}

ModelSpec vit(Config& c) {
  ModelSpec m = encoder_layers(c);
  m.architecture = Architecture::vit;
  Image image;
  image.size = c.side("image_size", max_sequence);
  image.patch = c.side("patch_size", max_sequence);
  image.channels = c.whole("num_channels", max_sequence);
  m.image = image;
  m.max_positions = patch_count(image) + 1;
  // Files list the classes by name.
  const std::optional<std::uint64_t> names = c.entries("id2label");
  m.vocabulary = names ? *names : c.whole("num_labels", max_vocabulary);
  m.biases.qkv = c.flag("qkv_bias");
  m.tied_embeddings = false;
  return m;
}

}  // namespace

Keys encoder_keys() { return encoder; }
Keys bert_keys() { return bert_table; }

ModelSpec bert(Config& c) {
  ModelSpec m = encoder_layers(c);
  m.architecture = Architecture::bert;
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence);
  m.segments = c.whole("type_vocab_size", max_width);
  m.tied_embeddings = true;
  return m;
}

std::vector<Family> encoder_families() {
  return {
      {"bert", {"BertForMaskedLM"}, {bert_keys(), encoder_keys(), common_keys()}, bert, {}, Family::Heads::pooler},
      {"vit",
       {"ViTForImageClassification"},
       {vit_keys, encoder_keys(), common_keys()},
       vit,
       {},
       Family::Heads::pooler_alone},
      {"ernie",
       {"ErnieForMaskedLM"},
       {ernie_keys, bert_keys(), encoder_keys(), common_keys()},
       bert,
       {},
       Family::Heads::pooler},
      {"vit_msn",
       {"ViTMSNForImageClassification"},
       {vit_msn_keys, vit_keys, encoder_keys(), common_keys()},
       vit,
       {},
       Family::Heads::nothing},
  };
}

}  // namespace orrery::hf
