#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

const std::vector<std::string_view>& norm_names() {
  static const std::vector<std::string_view> names{"layer_norm", "rms_norm"};
  return names;
}
const std::vector<std::string_view>& activation_names() {
  static const std::vector<std::string_view> names{"gelu", "swiglu"};
  return names;
}
const std::vector<std::string_view>& position_names() {
  static const std::vector<std::string_view> names{"learned", "rotary"};
  return names;
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

std::optional<ModelSpec> read_model(TomlTable& t) {
  const std::size_t before = t.diagnostics().size();
  ModelSpec m;
  m.origin = t.origin();
  t.read("name", m.name, Need::required, 200);
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
  t.read("vocabulary", m.vocabulary, {1, max_vocabulary});
  t.read("max_positions", m.max_positions, {1, max_sequence});
  t.read_enum("norm", norm_names(), m.norm);
  t.read_enum("activation", activation_names(), m.activation);
  t.read_enum("positions", position_names(), m.positions);
  t.read("bias", m.bias);
  t.read("tied_embeddings", m.tied_embeddings);
  t.read("norm_epsilon", m.norm_epsilon, {0.0, 1.0}, Need::optional);
  t.read("rope_theta", m.rope_theta, {1.0, 1e12}, Need::optional);
  std::size_t scaling = 0;
  if (t.read_choice("rope_scaling", rope_scaling_names(), scaling, Need::optional)) {
    m.rope_scaling = rope_scaling_names()[scaling];
  }
  t.read("source", m.source, Need::optional);
  t.finish();
  if (t.diagnostics().size() != before || !check_model(m, t.diagnostics())) return std::nullopt;
  return m;
}

std::string write_model(const ModelSpec& m) {
  TomlWriter w;
  w.whole("schema", spec_schema);
  w.table("model").text("name", m.name);
  w.whole("layers", m.layers).whole("hidden", m.hidden).whole("heads", m.heads).whole("kv_heads", m.kv_heads);
  w.whole("head_dim", m.head_dim).whole("ffn", m.ffn).whole("vocabulary", m.vocabulary);
  w.whole("max_positions", m.max_positions);
  w.text("norm", name_of(m.norm)).text("activation", name_of(m.activation)).text("positions", name_of(m.positions));
  w.flag("bias", m.bias).flag("tied_embeddings", m.tied_embeddings);
  w.number("norm_epsilon", m.norm_epsilon).number("rope_theta", m.rope_theta);
  if (!m.rope_scaling.empty()) w.text("rope_scaling", m.rope_scaling);
  if (!m.source.empty()) w.text("source", m.source);
  return w.str();
}

}  // namespace orrery
