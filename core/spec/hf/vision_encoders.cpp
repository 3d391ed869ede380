#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Vision transformers that differ from ViT. N patches of c P^2 numbers, C classes.
namespace orrery::hf {
namespace {

constexpr std::array image_keys{
    read("image_size", "224", "image.size"),
    read("patch_size", "16", "image.patch"),
    read("num_channels", "3"),
    read("id2label", "null"),
    read("num_labels", "2"),
    read("qkv_bias", "true"),
    no_effect("hidden_act"),
    no_effect("layer_norm_eps"),
    no_effect("drop_path_rate"),
    no_effect("encoder_stride"),
    no_effect("pooler_act"),
    no_effect("pooler_output_size"),
    no_effect("apply_layernorm"),
    no_effect("reshape_hidden_states"),
    no_effect("out_features"),
    no_effect("out_indices"),
    no_effect("_out_features"),
    no_effect("_out_indices"),
    no_effect("stage_names"),
};
constexpr std::array dinov2_keys{
    read("patch_size", "14", "image.patch"), read("mlp_ratio", "4"),         read("use_swiglu_ffn", "false"),
    read("use_mask_token", "true"),          no_effect("layerscale_value"),  no_effect("intermediate_size"),
    read("hidden_act", "\"gelu\""),          read("layer_norm_eps", "1e-6"),
};
constexpr std::array ijepa_keys{
    read("hidden_act", "\"gelu\""),
    read("layer_norm_eps", "1e-12"),
};
constexpr std::array registers_keys{
    read("patch_size", "16", "image.patch"),
    read("num_register_tokens", "4"),
    no_effect("interpolate_antialias"),
    no_effect("interpolate_offset"),
};
constexpr std::array dinov3_keys{
    read("hidden_size", "384"),        read("num_attention_heads", "6", "heads"),
    read("intermediate_size", "1536"), read("query_bias", "true"),
    read("key_bias", "false"),         read("value_bias", "true"),
    read("proj_bias", "true"),         read("mlp_bias", "true"),
    read("use_gated_mlp", "false"),    read("num_register_tokens", "0"),
    no_effect("rope_theta"),           no_effect("layerscale_value"),
    no_effect("pos_embed_shift"),      no_effect("pos_embed_jitter"),
    no_effect("pos_embed_rescale"),    no_effect("qkv_bias"),
};
constexpr std::array beit_keys{
    read("use_mask_token", "false"),
    read("use_absolute_position_embeddings", "false"),
    read("use_relative_position_bias", "false"),
    read("use_shared_relative_position_bias", "false"),
    read("layer_scale_init_value", "0.1"),
    read("use_mean_pooling", "true"),
    no_effect("vocab_size"),
    no_effect("qkv_bias"),
    // These keys belong to a head that finds regions.
    no_effect("pool_scales"),
    no_effect("use_auxiliary_head"),
    no_effect("auxiliary_loss_weight"),
    no_effect("auxiliary_channels"),
    no_effect("auxiliary_num_convs"),
    no_effect("auxiliary_concat_input"),
    no_effect("semantic_loss_ignore_index"),
    no_effect("segmentation_indices"),
    no_effect("add_fpn"),
};
constexpr std::array mae_keys{
    read("decoder_num_attention_heads", "16"),
    read("decoder_hidden_size", "512"),
    read("decoder_num_hidden_layers", "8"),
    read("decoder_intermediate_size", "2048"),
    no_effect("mask_ratio"),
    no_effect("norm_pix_loss"),
};

ModelSpec vision_shape(Config& c) {
  ModelSpec m = shape(c, {.ffn = c.knows("intermediate_size") ? "intermediate_size" : nullptr,
                          .vocabulary = nullptr,
                          .positions = nullptr});
  m.architecture = Architecture::vit;
  Image image;
  image.size = c.side("image_size", max_sequence);
  image.patch = c.side("patch_size", max_sequence);
  image.channels = c.whole("num_channels", max_sequence);
  m.image = image;
  m.vocabulary = std::max<std::uint64_t>(1, label_count(c).value());
  m.max_positions = patch_count(image) + 1;
  return m;
}

Count patches(const ModelSpec& m) { return product(patch_width(*m.image), m.hidden, true); }

/// ViT's layer, where queries, keys and values may lack biases.
Count vit_layer(Config& c, const ModelSpec& m) {
  const Count h = m.hidden;
  return bert_layer(h, m.ffn) - (truth(c, "qkv_bias") ? Count(0) : 3 * h);
}

/// What a class with a trained classifier has: layer norms, learned positions, biases.
ModelSpec classifier(Config& c) {
  ModelSpec m = vision_shape(c);
  heads_divide(c, m, "num_attention_heads", "hidden_size");
  m.image->size -= m.image->size % m.image->patch;  // pixels at the edge that fill no patch are not seen
  m.norm = Norm::layer_norm;
  m.norm_epsilon = c.number("layer_norm_eps", 0.0, 1.0);
  m.activation = activation(c, "hidden_act", Gate::without);
  m.positions = PositionEncoding::learned;
  m.biases = Biases::of_layers(true);
  m.biases.qkv = truth(c, "qkv_bias");
  m.tied_embeddings = false;
  return m;
}

/// DINOv2 scales both parts of a layer with h weights each. Its gates have 2/3 of the width, rounded up to a multiple
/// of 8. Its classifier sees the class token and the mean of the patches.
ModelSpec dinov2(Config& c) {
  ModelSpec m = classifier(c);
  const Count f = Count(m.hidden) * static_cast<std::uint64_t>(c.number("mlp_ratio", 1.0, 64.0));
  const bool gated = truth(c, "use_swiglu_ffn");
  const Count width = gated ? (f * 2 / 3 + 7) / 8 * 8 : f;
  m.ffn = std::min<std::uint64_t>(width.value(), max_width);
  if (gated) m.activation = Activation::swiglu;
  m.layer_scale = true;
  m.image->pool = Image::Pool::class_and_mean;
  m.image->mask_token = !c.knows("num_register_tokens") && truth(c, "use_mask_token");
  return m;
}

/// DINOv2 with further tokens, which have no positions. It always has a mask token.
ModelSpec registers(Config& c) {
  ModelSpec m = dinov2(c);
  const Count h = m.hidden;
  const bool classifies = c.find("architectures") != nullptr && !is_class(c, c.family().classes.front());
  const Count head = product(2 * h, label_count(c), true);
  const Count body = Count(parameter_count(m)) - product(2 * h, m.vocabulary, true);
  count(c, m, body + (number(c, "num_register_tokens") + 1) * h, classifies ? head : Count(0),
        "register tokens beside the class token");
  return m;
}

/// DINOv3's positions rotate; its tokens are a class, a mask and registers.
ModelSpec dinov3(Config& c) {
  ModelSpec m = vision_shape(c);
  const Count h = m.hidden;
  Count biases = 0;
  for (const char* key : {"query_bias", "key_bias", "value_bias", "proj_bias"}) biases += truth(c, key) ? h : Count(0);
  const Count layer =
      attention(h, false) + biases + feed_forward(h, m.ffn, truth(c, "use_gated_mlp"), truth(c, "mlp_bias")) + 6 * h;
  count(c, m, patches(m) + (2 + number(c, "num_register_tokens")) * h + m.layers * layer + 2 * h, 0,
        "patches whose positions rotate");
  return m;
}

/// DeiT has a second token, which learns from a teacher; one class trains a classifier of each.
ModelSpec deit(Config& c) {
  ModelSpec m = vision_shape(c);
  const Count h = m.hidden, heads = is_class(c, "DeiTForImageClassificationWithTeacher") ? 2 : 1;
  count(c, m, patches(m) + (3 + Count(m.max_positions)) * h + m.layers * vit_layer(c, m) + 2 * h,
        heads * product(h, m.vocabulary, true), "a token that learns from a teacher");
  return m;
}

/// BEiT's keys have no bias. Distances of patches have a bias for each head, of each layer or shared: with g patches on
/// a side (2 g - 1)^2 + 3 of them.
ModelSpec beit(Config& c) {
  ModelSpec m = vision_shape(c);
  const Count h = m.hidden, side = m.image->size / m.image->patch;
  const Count table = ((2 * side - 1) * (2 * side - 1) + 3) * m.heads;
  Count layer = bert_layer(h, m.ffn) - h;
  if (c.number("layer_scale_init_value", 0.0, 1e3) > 0.0) layer += 2 * h;
  if (truth(c, "use_relative_position_bias")) layer += table;
  Count body = patches(m) + h + m.layers * layer + 2 * h;
  if (truth(c, "use_mask_token")) body += h;
  if (truth(c, "use_absolute_position_embeddings")) body += Count(m.max_positions) * h;
  if (truth(c, "use_shared_relative_position_bias")) body += table;
  count(c, m, body, product(h, m.vocabulary, true), "biases of distances");
  return m;
}

/// I-JEPA has no class token. Its classifier sees the mean of the patches.
ModelSpec ijepa(Config& c) {
  ModelSpec m = classifier(c);
  m.image->class_token = false;
  m.image->pool = Image::Pool::mean;
  m.max_positions = std::max<std::uint64_t>(1, image_positions(*m.image));
  return m;
}

/// A masked autoencoder: ViT without its head, and a narrower decoder that gives pixels.
ModelSpec vit_mae(Config& c) {
  ModelSpec m = vision_shape(c);
  const Count h = m.hidden, e = number(c, "decoder_hidden_size"), rows = m.max_positions;
  const Count three = truth(c, "qkv_bias") ? 0 : 3;
  const Count layers = number(c, "decoder_num_hidden_layers");
  const Count decoder = product(h, e, true) + e + rows * e +
                        layers * (bert_layer(e, number(c, "decoder_intermediate_size")) - three * e) + 2 * e +
                        product(e, patch_width(*m.image), true);
  count(c, m, patches(m) + (1 + rows) * h + m.layers * vit_layer(c, m) + 2 * h, decoder, "a decoder of pixels");
  return m;
}

}  // namespace

std::vector<Family> vision_encoder_families() {
  using Heads = Family::Heads;
  const auto family = [](std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                         ModelSpec (*reader)(Config&), Heads heads = Heads::nothing) {
    own.insert(own.end(), {image_keys, encoder_keys(), common_keys()});
    return Family{type, std::move(classes), std::move(own), reader, {}, heads};
  };
  return {
      family("dinov2", {"Dinov2ForImageClassification"}, {dinov2_keys}, dinov2),
      family("dinov2_with_registers", {"Dinov2WithRegistersModel", "Dinov2WithRegistersForImageClassification"},
             {registers_keys, dinov2_keys}, registers, Heads::unknown),
      family("dinov3_vit", {"DINOv3ViTModel"}, {dinov3_keys}, dinov3, Heads::unknown),
      family("deit", {"DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"}, {}, deit,
             Heads::pooler_alone),
      family("beit", {"BeitForImageClassification"}, {beit_keys}, beit, Heads::unknown),
      family("ijepa", {"IJepaForImageClassification"}, {ijepa_keys}, ijepa),
      family("vit_mae", {"ViTMAEForPreTraining"}, {mae_keys}, vit_mae, Heads::unknown),
  };
}

}  // namespace orrery::hf
