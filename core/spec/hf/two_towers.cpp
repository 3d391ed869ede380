#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/hf/towers.hpp"
#include "core/spec/spec_check.hpp"

// CLIP and SigLIP: a tower of text beside one of images, and each tower alone.
namespace orrery::hf {
namespace {

constexpr std::array two_keys{
    read("text_config", "null"),      read("vision_config", "null"),       no_effect("text_config_dict"),
    no_effect("vision_config_dict"),  no_effect("logit_scale_init_value"), no_effect("initializer_factor"),
    no_effect("tie_word_embeddings"),
};
constexpr std::array clip_keys{
    read("projection_dim", "512"),
    read("text_config.vocab_size", "49408"),
    read("text_config.hidden_size", "512"),
    read("text_config.intermediate_size", "2048"),
    read("text_config.num_hidden_layers", "12"),
    read("text_config.num_attention_heads", "8"),
    read("text_config.max_position_embeddings", "77"),
    no_effect("text_config.projection_dim"),
    read("vision_config.num_attention_heads", "12"),
    read("vision_config.hidden_act", "\"quick_gelu\""),
    read("vision_config.layer_norm_eps", "1e-5"),
};
constexpr std::array siglip_keys{
    read("text_config.vocab_size", "32000"),
    read("text_config.hidden_size", "768"),
    read("text_config.intermediate_size", "3072"),
    read("text_config.num_hidden_layers", "12"),
    read("text_config.num_attention_heads", "12"),
    read("text_config.max_position_embeddings", "64"),
    read("text_config.projection_size", "null"),
    read("vision_config.num_attention_heads", "12"),
    read("vision_config.hidden_act", "\"gelu_pytorch_tanh\""),
    read("vision_config.layer_norm_eps", "1e-6"),
    read("id2label", "null"),
    read("num_labels", "2"),
};
constexpr std::array alone_keys{
    no_effect("hidden_act"),        no_effect("layer_norm_eps"), no_effect("initializer_factor"),
    no_effect("attention_dropout"), no_effect("dropout"),        no_effect("logit_scale_init_value"),
};
constexpr std::array clip_text_keys{
    read("vocab_size", "49408"),           read("hidden_size", "512"),      read("intermediate_size", "2048"),
    read("projection_dim", "512"),         read("num_hidden_layers", "12"), read("num_attention_heads", "8"),
    read("max_position_embeddings", "77"),
};
constexpr std::array siglip_text_keys{
    read("vocab_size", "32000"),     read("hidden_size", "768"),        read("intermediate_size", "3072"),
    read("num_hidden_layers", "12"), read("num_attention_heads", "12"), read("max_position_embeddings", "64"),
    read("projection_size", "null"),
};
constexpr std::array vision_keys{
    read("hidden_size", "768"),        read("intermediate_size", "3072"), read("num_hidden_layers", "12"),
    read("num_attention_heads", "12"), read("num_channels", "3"),         read("image_size", "224"),
};
constexpr std::array clip_vision_keys{
    read("patch_size", "32"),
    read("projection_dim", "512"),
    read("hidden_act", "\"quick_gelu\""),
    read("layer_norm_eps", "1e-5"),
};
constexpr std::array siglip_vision_keys{read("patch_size", "16"), read("vision_use_head", "true")};
constexpr std::array siglip2_vision_keys{read("num_patches", "256"), no_effect("image_size")};

ShapeKeys text_keys(bool inner) {
  if (!inner) return {};
  return {"text_config.num_hidden_layers",
          "text_config.hidden_size",
          "text_config.num_attention_heads",
          nullptr,
          nullptr,
          "text_config.intermediate_size",
          "text_config.vocab_size",
          "text_config.max_position_embeddings"};
}

/// A tower of text: V h + P h, layers, and a norm 2 h.
Count text_tower(const ModelSpec& m) {
  return (Count(m.vocabulary) + m.max_positions + 2) * m.hidden + m.layers * bert_layer(m.hidden, m.ffn);
}

/// A tower of images as a vision transformer, whose classes are left open.
ModelSpec image_tower(Config& c, const std::string& ahead, TowerKind kind) {
  const Vision v = read_vision(c, ahead, class_sizes(kind));
  const std::string heads = ahead + "num_attention_heads";
  ModelSpec m;
  m.architecture = Architecture::vit;
  m.layers = v.layers.value();
  m.hidden = std::max<std::uint64_t>(1, v.h.value());
  m.heads = m.kv_heads = std::max<std::uint64_t>(1, number(c, heads.c_str()).value());
  heads_divide(c, m, heads.c_str(), (ahead + "hidden_size").c_str());
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = v.f.value();
  m.norm = Norm::layer_norm;
  m.norm_epsilon = c.number((ahead + "layer_norm_eps").c_str(), 0.0, 1.0);
  m.activation = activation(c, (ahead + "hidden_act").c_str(), Gate::without);
  m.positions = PositionEncoding::learned;
  m.biases = Biases::of_layers(true);
  m.tied_embeddings = false;
  Image image;
  image.patch = v.patch.value();
  image.size = (v.image - v.image % v.patch).value();  // pixels at the edge that fill no patch are not seen
  image.channels = v.channels.value();
  m.image = image;
  return m;
}

/// CLIP's tower with the product that makes an embedding of the class token: it has no bias.
ModelSpec clip_images(Config& c, const std::string& ahead) {
  ModelSpec m = image_tower(c, ahead, TowerKind::clip);
  m.embedding_norm = true;
  m.image->patch_bias = m.image->head_bias = false;
  m.vocabulary = number(c, "projection_dim").value();
  m.max_positions = std::max<std::uint64_t>(1, image_positions(*m.image));
  return m;
}
ModelSpec clip_tower(Config& c) { return clip_images(c, "vision_config."); }

/// SigLIP's tower with a classifier that sees the mean of the patches, in place of the head that attends to them.
ModelSpec siglip_tower(Config& c) {
  ModelSpec m = image_tower(c, "vision_config.", TowerKind::siglip);
  m.image->class_token = false;
  m.image->pool = Image::Pool::mean;
  m.vocabulary = std::max<std::uint64_t>(1, label_count(c).value());
  m.max_positions = std::max<std::uint64_t>(1, image_positions(*m.image));
  return m;
}

/// Both towers' projections have no biases, and the scale of scores is one weight.
ModelSpec clip(Config& c) {
  ModelSpec m = shape(c, text_keys(true));
  const Count both = number(c, "projection_dim");
  const Vision vision = read_vision(c, "vision_config.", class_sizes(TowerKind::clip));
  count(c, m, text_tower(m) + tower(TowerKind::clip, vision), both * (Count(m.hidden) + vision.h) + 1,
        "a tower of images beside one of text, which --part vision reads alone");
  return m;
}

/// SigLIP 2 has a number of positions in place of the image's size.
Vision siglip_sizes(Config& c) {
  Vision absent = class_sizes(TowerKind::siglip);
  if (c.family().type == "siglip2") absent.rows = 256;
  return read_vision(c, "vision_config.", absent);
}

/// SigLIP's tower of text ends in a product of h x p + p. Scores have a scale and a bias.
ModelSpec siglip(Config& c) {
  ModelSpec m = shape(c, text_keys(true));
  const Count ends = product(m.hidden, number(c, "text_config.projection_size", m.hidden), true);
  const bool two = c.family().type == "siglip2";
  count(c, m, text_tower(m) + ends + tower(TowerKind::siglip, siglip_sizes(c)), 2,
        two ? "a tower of images beside one of text"
            : "a tower of images beside one of text, which --part vision reads alone");
  return m;
}

ModelSpec clip_text(Config& c) {
  ModelSpec m = shape(c);
  const bool projects = is_class(c, "CLIPTextModelWithProjection");
  count(c, m, text_tower(m), projects ? product(m.hidden, number(c, "projection_dim")) : Count(0),
        "a head that reads one position of each text");
  return m;
}

ModelSpec siglip_text(Config& c) {
  ModelSpec m = shape(c);
  count(c, m, text_tower(m), product(m.hidden, number(c, "projection_size", m.hidden), true),
        "a head that reads one position of each text");
  return m;
}

ModelSpec vision_shape(Config& c) { return shape(c, {.vocabulary = nullptr, .positions = nullptr}); }

ModelSpec clip_vision(Config& c) { return clip_images(c, ""); }

ModelSpec siglip_vision(Config& c) {
  ModelSpec m = vision_shape(c);
  count(c, m, tower(TowerKind::siglip, read_vision(c, "", class_sizes(TowerKind::siglip))), 0,
        "a head that attends to the patches");
  return m;
}

}  // namespace

std::vector<Family> two_tower_families() {
  using Heads = Family::Heads;
  const auto family = [](std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                         ModelSpec (*reader)(Config&), TowerPart vision = {}, Heads heads = Heads::unknown) {
    own.push_back(common_keys());
    return Family{type, std::move(classes), std::move(own), reader, {}, heads, vision};
  };
  return {
      family("clip", {"CLIPModel"}, {two_keys, clip_keys, tower_keys()}, clip,
             {"CLIPVisionModelWithProjection", clip_tower}),
      family("siglip", {"SiglipModel"}, {two_keys, siglip_keys, tower_keys()}, siglip,
             {"SiglipForImageClassification", siglip_tower}),
      family("siglip2", {"Siglip2Model"}, {two_keys, siglip_keys, tower_keys()}, siglip),
      family("clip_text_model", {"CLIPTextModel", "CLIPTextModelWithProjection"}, {clip_text_keys, alone_keys},
             clip_text),
      family("clip_vision_model", {"CLIPVisionModelWithProjection"}, {clip_vision_keys, vision_keys, alone_keys},
             clip_vision, {}, Heads::nothing),
      family("siglip_text_model", {"SiglipTextModel"}, {siglip_text_keys, alone_keys}, siglip_text),
      family("siglip_vision_model", {"SiglipVisionModel"}, {siglip_vision_keys, vision_keys, alone_keys},
             siglip_vision),
      family("siglip2_vision_model", {"Siglip2VisionModel"},
             {siglip2_vision_keys, siglip_vision_keys, vision_keys, alone_keys}, siglip_vision),
  };
}

}  // namespace orrery::hf
