#include <algorithm>

#include "core/spec/layer_kinds_file.hpp"
#include "core/spec/mixture_file.hpp"
#include "core/spec/rope_file.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

const std::vector<std::string_view>& norm_names() {
  static const std::vector<std::string_view> names{"layer_norm", "rms_norm"};
  return names;
}
const std::vector<std::string_view>& activation_names() {
  static const std::vector<std::string_view> names{"gelu", "swiglu", "geglu", "relu", "squared_relu", "quick_gelu"};
  return names;
}
const std::vector<std::string_view>& position_names() {
  static const std::vector<std::string_view> names{"learned", "rotary", "alibi", "none"};
  return names;
}

const std::vector<std::string_view>& architecture_names() {
  static const std::vector<std::string_view> names{"decoder", "bert", "vit"};
  return names;
}

const std::vector<std::string_view>& pool_names() {
  static const std::vector<std::string_view> names{"class_token", "mean", "class_and_mean"};
  return names;
}

/// [model.latent]
void read_latent(TomlTable t, LatentAttention& l) {
  t.read("query_rank", l.query_rank, {1, max_width}, Need::optional);
  t.read("kv_rank", l.kv_rank, {1, max_width});
  t.read("rope_dim", l.rope_dim, {2, max_width});
  t.read("value_dim", l.value_dim, {1, max_width});
  t.finish();
}

/// [model.counted]
void read_counted(TomlTable t, CountedOnly& c) {
  t.read("parameters", c.parameters, {1, max_parameters});
  t.read("active", c.active, {1, max_parameters}, Need::optional);
  t.read("because", c.because, Need::required, 200);
  t.finish();
}

/// Reads [model.image]; the number of classes takes the place of the vocabulary, because the head tells classes apart
/// as it tells words apart elsewhere.
void read_image(TomlTable t, ModelSpec& m) {
  Image image;
  t.read("size", image.size, {1, max_sequence});
  t.read("patch", image.patch, {1, max_sequence});
  t.read("channels", image.channels, {1, max_sequence}, Need::optional);
  t.read("classes", m.vocabulary, {1, max_vocabulary});
  t.read("class_token", image.class_token, Need::optional);
  t.read("mask_token", image.mask_token, Need::optional);
  t.read("patch_bias", image.patch_bias, Need::optional);
  t.read("head_bias", image.head_bias, Need::optional);
  t.read_enum("pool", pool_names(), image.pool, Need::optional);
  t.finish();
  m.image = image;
  m.max_positions = std::max<std::uint64_t>(1, image_positions(image));
}

}  // namespace

const std::vector<std::string_view>& rope_scaling_names() {
  // The kinds that the Hugging Face library knows, besides "default".
  static const std::vector<std::string_view> names{"linear", "dynamic", "yarn", "longrope", "llama3"};
  return names;
}

std::string_view name_of(Norm n) { return norm_names()[static_cast<std::size_t>(n)]; }
std::string_view name_of(Activation a) { return activation_names()[static_cast<std::size_t>(a)]; }
std::string_view name_of(PositionEncoding p) { return position_names()[static_cast<std::size_t>(p)]; }

std::string_view name_of(Architecture a) { return architecture_names()[static_cast<std::size_t>(a)]; }

std::optional<ModelSpec> read_model(TomlTable& t) {
  const std::size_t before = t.diagnostics().size();
  ModelSpec m;
  m.origin = t.origin();
  t.read("name", m.name, Need::required, 200);
  t.read_enum("architecture", architecture_names(), m.architecture, Need::optional);
  t.read("layers", m.layers, {1, max_layers});
  t.read("hidden", m.hidden, {1, max_width});
  t.read("heads", m.heads, {1, max_width});
  m.kv_heads = m.heads;
  t.read("kv_heads", m.kv_heads, {1, max_width}, Need::optional);
  if (!t.read("head_dim", m.head_dim, {1, max_width}, Need::optional) && m.heads > 0) {
    m.head_dim = m.hidden / m.heads;
    if (!t.has("head_dim") && m.hidden % m.heads != 0) {
      t.error("heads", "model.heads", "heads does not divide hidden",
              {"hidden is " + std::to_string(m.hidden) + ", and " + std::to_string(m.hidden) + " / " +
                   std::to_string(m.heads) + " leaves " + std::to_string(m.hidden % m.heads) + ".",
               "Give head_dim where the width of the heads is not hidden / heads."});
    }
  }
  t.read("ffn", m.ffn, {1, max_width});
  const bool image = m.architecture == Architecture::vit;
  if (!image) t.read("vocabulary", m.vocabulary, {1, max_vocabulary});
  if (!image) t.read("max_positions", m.max_positions, {1, max_sequence});
  // What the other architectures leave open is what they were published with.
  const Need choice = m.architecture == Architecture::decoder ? Need::required : Need::optional;
  m.tied_embeddings = !image;
  t.read_enum("norm", norm_names(), m.norm, choice);
  t.read_enum("activation", activation_names(), m.activation, choice);
  t.read_enum("positions", position_names(), m.positions, choice);
  if (bool bias = true; t.has("bias") || (choice == Need::required && !t.has("biases"))) {
    if (t.read("bias", bias)) m.biases = Biases::of_layers(bias);
  }
  read_layer_kinds(t, m);
  if (t.has("tied_embeddings") || choice == Need::required) t.read("tied_embeddings", m.tied_embeddings);
  if (m.architecture == Architecture::bert) t.read("segments", m.segments, {0, max_width});
  if (image) {
    if (std::optional<TomlTable> table = t.table("image")) read_image(*table, m);
  }
  if (m.architecture == Architecture::decoder) {
    if (std::optional<TomlTable> table = t.table("latent", Need::optional)) read_latent(*table, m.latent.emplace());
    if (std::optional<TomlTable> table = t.table("mixture", Need::optional)) read_mixture(*table, m.mixture.emplace());
    t.read("prediction_modules", m.prediction_modules, {0, max_layers}, Need::optional);
  }
  if (std::optional<TomlTable> table = t.table("counted", Need::optional)) read_counted(*table, m.counted.emplace());
  t.read("norm_epsilon", m.norm_epsilon, {0.0, 1.0}, Need::optional);
  t.read("rope_theta", m.rope_theta, {1.0, 1e12}, Need::optional);
  std::size_t scaling = 0;
  if (t.read_choice("rope_scaling", rope_scaling_names(), scaling, Need::optional)) {
    m.rope_scaling = rope_scaling_names()[scaling];
  }
  if (std::optional<TomlTable> table = t.table("rope", Need::optional)) read_rope_stretch(*table, m.rope_stretch);
  t.read("source", m.source, Need::optional);
  t.finish();
  if (t.diagnostics().size() != before || !check_model(m, t.diagnostics())) return std::nullopt;
  return m;
}

std::string write_model(const ModelSpec& m) {
  TomlWriter w;
  w.whole("schema", spec_schema);
  w.table("model").text("name", m.name);
  if (m.architecture != Architecture::decoder) w.text("architecture", name_of(m.architecture));
  w.whole("layers", m.layers).whole("hidden", m.hidden).whole("heads", m.heads).whole("kv_heads", m.kv_heads);
  w.whole("head_dim", m.head_dim).whole("ffn", m.ffn);
  if (!m.image) w.whole("vocabulary", m.vocabulary).whole("max_positions", m.max_positions);
  if (m.architecture == Architecture::bert) w.whole("segments", m.segments);
  if (m.prediction_modules > 0) w.whole("prediction_modules", m.prediction_modules);
  w.text("norm", name_of(m.norm)).text("activation", name_of(m.activation)).text("positions", name_of(m.positions));
  w.flag("tied_embeddings", m.tied_embeddings);
  write_layer_kinds(w, m);
  w.number("norm_epsilon", m.norm_epsilon).number("rope_theta", m.rope_theta);
  if (!m.rope_scaling.empty()) w.text("rope_scaling", m.rope_scaling);
  if (!m.source.empty()) w.text("source", m.source);
  write_rope_stretch(w, m);
  if (m.latent) {
    w.table("model.latent");
    if (m.latent->query_rank > 0) w.whole("query_rank", m.latent->query_rank);
    w.whole("kv_rank", m.latent->kv_rank).whole("rope_dim", m.latent->rope_dim);
    w.whole("value_dim", m.latent->value_dim);
  }
  write_local_attention(w, m);
  if (m.mixture) write_mixture(w, *m.mixture);
  if (m.image) {
    w.table("model.image").whole("size", m.image->size).whole("patch", m.image->patch);
    w.whole("channels", m.image->channels).whole("classes", m.vocabulary);
    const Image usual;
    if (!m.image->class_token) w.flag("class_token", false);
    if (m.image->mask_token) w.flag("mask_token", true);
    if (!m.image->patch_bias) w.flag("patch_bias", false);
    if (!m.image->head_bias) w.flag("head_bias", false);
    if (m.image->pool != usual.pool) w.text("pool", pool_names()[static_cast<std::size_t>(m.image->pool)]);
  }
  if (m.counted) {
    w.table("model.counted").whole("parameters", m.counted->parameters);
    if (m.counted->active > 0) w.whole("active", m.counted->active);
    w.text("because", m.counted->because);
  }
  return w.str();
}

}  // namespace orrery
