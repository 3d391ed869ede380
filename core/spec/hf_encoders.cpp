#include <algorithm>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

// BERT and ViT.  Their gelu is the exact one; this program computes the tanh
// form, which differs by less than 0.001 and costs the same.
namespace orrery::hf {
namespace {

/// Keys that both have, with the defaults of their smallest published size.
ModelSpec encoder(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", 12, max_layers);
  m.hidden = c.whole("hidden_size", 768, max_width);
  m.heads = c.whole("num_attention_heads", 12, max_width);
  m.kv_heads = m.heads;
  heads_divide(c, m, "num_attention_heads", "hidden_size");
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("intermediate_size", 3072, max_width);
  m.norm_epsilon = c.number("layer_norm_eps", 1e-12, 0.0, 1.0);
  c.only("hidden_act", "gelu", {"gelu", "gelu_new", "gelu_pytorch_tanh"});
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
  m.vocabulary = c.whole("vocab_size", 30522, max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", 512, max_sequence);
  m.segments = c.whole("type_vocab_size", 2, max_width);
  m.tied_embeddings = true;
  c.only("position_embedding_type", "absolute", {"absolute"});
  if (c.flag("is_decoder", false)) {
    c.error("is_decoder", "hf.unsupported", "BERT as a decoder is not supported");
  }
  if (!c.flag("tie_word_embeddings", true)) {
    c.error("tie_word_embeddings", "hf.unsupported", "BERT whose head is not the word table is not supported");
  }
  return m;
}

ModelSpec vit(Config& c) {
  ModelSpec m = encoder(c);
  m.architecture = Architecture::vit;
  Image image;
  image.size = c.whole("image_size", 224, max_sequence);
  image.patch = c.whole("patch_size", 16, max_sequence);
  image.channels = c.whole("num_channels", 3, max_sequence);
  m.image = image;
  m.max_positions = patch_count(image) + 1;
  // Files keep the classes by name.
  m.vocabulary = c.entries("id2label", c.whole("num_labels", 1000, max_vocabulary));
  m.tied_embeddings = false;
  if (!c.flag("qkv_bias", true)) {
    c.error("qkv_bias", "hf.unsupported", "biases in only some linear layers are not supported");
  }
  return m;
}

}  // namespace orrery::hf
