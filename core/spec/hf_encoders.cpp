#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

// BERT and ViT.
namespace orrery::hf {
namespace {

ModelSpec encoder(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", max_layers);
  m.hidden = c.whole("hidden_size", max_width);
  m.heads = c.whole("num_attention_heads", max_width);
  m.kv_heads = m.heads;
  heads_divide(c, m, "num_attention_heads", "hidden_size");
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("intermediate_size", max_width);
  m.norm_epsilon = c.number("layer_norm_eps", 0.0, 1.0);
  c.choice("hidden_act", gelu_names());
  m.norm = Norm::layer_norm;
  m.activation = Activation::gelu;
  m.positions = PositionEncoding::learned;
  m.bias = true;
  return m;
}

}  // namespace

ModelSpec bert(Config& c) {
  ModelSpec m = encoder(c);
  m.architecture = Architecture::bert;
  m.vocabulary = c.whole("vocab_size", max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", max_sequence);
  m.segments = c.whole("type_vocab_size", max_width);
  m.tied_embeddings = true;
  return m;
}

ModelSpec vit(Config& c) {
  ModelSpec m = encoder(c);
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
  m.tied_embeddings = false;
  return m;
}

}  // namespace orrery::hf
