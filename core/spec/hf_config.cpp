#include "core/spec/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

using nlohmann::json;

Position position_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t end = before.rfind('\n');
  return {line + 1, 1 + character_count(end == std::string_view::npos ? before : before.substr(end + 1))};
}

/// Keeps the positions of the top-level keys: the JSON library has none, so
/// each key's value is found by looking for the quoted key and its colon.
void record_positions(const json& object, Origin& origin) {
  for (const auto& [key, value] : object.items()) {
    const std::string quoted = "\"" + key + "\"";
    for (std::size_t at = origin.text.find(quoted); at != std::string::npos; at = origin.text.find(quoted, at + 1)) {
      const std::size_t colon = origin.text.find_first_not_of(" \t\r\n", at + quoted.size());
      if (colon == std::string::npos || origin.text[colon] != ':') continue;
      const std::size_t begin = origin.text.find_first_not_of(" \t\r\n", colon + 1);
      if (begin != std::string::npos) origin.positions.emplace(key, position_at(origin.text, begin));
      break;
    }
  }
}

/// Whether brackets nest deeper than any config's do; the parser's value tree
/// is freed recursively.
bool nests_deeper(std::string_view text, int most) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      depth = std::max(0, depth - 1);
    }
  }
  return false;
}

class Config {
 public:
  Config(const json& object, const Origin& origin, Diagnostics& diagnostics)
      : object_(object), origin_(origin), diagnostics_(diagnostics), before_(diagnostics.size()) {}

  /// No mistake so far: what was read may be compared.
  [[nodiscard]] bool good() const { return diagnostics_.size() == before_; }

  /// Present and not null.
  [[nodiscard]] const json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  void error(const char* key, std::string code, std::string message, std::vector<std::string> details = {}) {
    diagnostics_.error(origin_, key, std::move(code), std::move(message), std::move(details));
  }
  std::uint64_t whole(const char* key, std::optional<std::uint64_t> absent, std::uint64_t most) {
    const json* value = find(key);
    if (value == nullptr) {
      if (!absent) error(key, "hf.missing-key", fmt::format("the key {} is missing", key));
      return absent.value_or(1);
    }
    if (!value->is_number_integer()) {
      error(key, "hf.type", fmt::format("{} is not a whole number", key));
      return 1;
    }
    const bool negative = !value->is_number_unsigned() && value->get<std::int64_t>() < 0;
    if (negative || value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > most) {
      error(key, "hf.range", fmt::format("{} is out of range", key),
            {fmt::format("It is {}; from 1 to {} is allowed.", value->dump(), most)});
      return 1;
    }
    return value->get<std::uint64_t>();
  }
  double number(const char* key, double absent, double least, double most) {
    return number_in(object_, key, key, absent, least, most);
  }
  double number_in(const json& where, const char* key, const char* shown, double absent, double least, double most) {
    const auto at = where.find(key);
    if (at == where.end() || at->is_null()) return absent;
    if (!at->is_number()) {
      error(shown, "hf.type", fmt::format("{} is not a number", key));
      return absent;
    }
    const double value = at->get<double>();
    if (!(value >= least && value <= most)) {
      error(shown, "hf.range", fmt::format("{} is out of range", key),
            {fmt::format("It is {}; from {} to {} is allowed.", value, least, most)});
      return absent;
    }
    return value;
  }
  bool flag(const char* key, bool absent) {
    const json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) {
      error(key, "hf.type", fmt::format("{} is not true or false", key));
      return absent;
    }
    return value->get<bool>();
  }
  std::string text(const char* key, const char* absent) {
    const json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_string()) {
      error(key, "hf.type", fmt::format("{} is not a text", key));
      return absent;
    }
    return value->get<std::string>();
  }
  void only(const char* key, const char* absent, const std::vector<std::string>& known) {
    const std::string value = text(key, absent);
    for (const std::string& k : known) {
      if (k == value) return;
    }
    error(key, "hf.unsupported", fmt::format("{} \"{}\" is not supported", key, value),
          {fmt::format("Supported: {}.", fmt::join(known, ", "))});
  }

 private:
  const json& object_;
  const Origin& origin_;
  Diagnostics& diagnostics_;
  std::size_t before_;
};

/// The kind of scaling of the rotary angles in an object like rope_scaling: its
/// "rope_type", or "type" in older files.  Empty for none.
std::string rope_scaling(Config& c, const char* key) {
  const json* object = c.find(key);
  if (object == nullptr) return "";
  if (!object->is_object()) {
    c.error(key, "hf.type", fmt::format("{} is not an object", key));
    return "";
  }
  for (const char* name : {"rope_type", "type"}) {
    const auto at = object->find(name);
    if (at == object->end() || at->is_null()) continue;
    if (!at->is_string()) {
      c.error(key, "hf.type", fmt::format("{} of {} is not a text", name, key));
      return "";
    }
    const auto kind = at->get<std::string>();
    if (kind == "default") return "";
    const auto& known = rope_scaling_names();
    if (std::find(known.begin(), known.end(), kind) != known.end()) return kind;
    c.error(key, "hf.unsupported", fmt::format("{} of the kind \"{}\" is not supported", key, kind),
            {fmt::format("Supported: default, {}.", fmt::join(known, ", "))});
    return "";
  }
  // Newer files keep the base in rope_parameters and may leave out the kind.
  if (std::string_view(key) == "rope_scaling") {
    c.error(key, "hf.missing-key", "rope_scaling does not say its kind (rope_type)");
  }
  return "";
}

ModelSpec gpt2(Config& c) {
  ModelSpec m;
  m.layers = c.whole("n_layer", 12, max_layers);
  m.hidden = c.whole("n_embd", 768, max_width);
  m.heads = c.whole("n_head", 12, max_width);
  m.kv_heads = m.heads;
  if (c.good() && m.hidden % m.heads != 0) {
    c.error("n_head", "model.heads", "n_head does not divide n_embd",
            {fmt::format("n_embd is {}, and {} / {} leaves {}.", m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
  }
  m.head_dim = std::max<std::uint64_t>(1, m.hidden / m.heads);
  m.ffn = c.whole("n_inner", 4 * m.hidden, max_width);
  m.vocabulary = c.whole("vocab_size", 50257, max_vocabulary);
  m.max_positions = c.whole("n_positions", 1024, max_sequence);
  m.norm_epsilon = c.number("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  c.only("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.norm = Norm::layer_norm;
  m.activation = Activation::gelu;
  m.positions = PositionEncoding::learned;
  m.bias = true;
  return m;
}

ModelSpec llama(Config& c) {
  ModelSpec m;
  m.layers = c.whole("num_hidden_layers", std::nullopt, max_layers);
  m.hidden = c.whole("hidden_size", std::nullopt, max_width);
  m.heads = c.whole("num_attention_heads", std::nullopt, max_width);
  m.kv_heads = c.whole("num_key_value_heads", m.heads, max_width);
  if (c.good() && c.find("head_dim") == nullptr && m.hidden % m.heads != 0) {
    c.error(
        "num_attention_heads", "model.heads", "num_attention_heads does not divide hidden_size",
        {fmt::format("hidden_size is {}, and {} / {} leaves {}.", m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
  }
  m.head_dim = c.whole("head_dim", std::max<std::uint64_t>(1, m.hidden / m.heads), max_width);
  m.ffn = c.whole("intermediate_size", std::nullopt, max_width);
  m.vocabulary = c.whole("vocab_size", std::nullopt, max_vocabulary);
  m.max_positions = c.whole("max_position_embeddings", 2048, max_sequence);
  m.norm_epsilon = c.number("rms_norm_eps", 1e-6, 0.0, 1.0);
  m.rope_theta = c.number("rope_theta", 10000.0, 1.0, 1e12);
  if (const json* rope = c.find("rope_parameters"); rope != nullptr && rope->is_object()) {
    m.rope_theta = c.number_in(*rope, "rope_theta", "rope_parameters", m.rope_theta, 1.0, 1e12);
  }
  m.rope_scaling = rope_scaling(c, "rope_scaling");
  if (m.rope_scaling.empty()) m.rope_scaling = rope_scaling(c, "rope_parameters");
  c.only("hidden_act", "silu", {"silu", "swish"});
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  const bool attention_bias = c.flag("attention_bias", false);
  const bool mlp_bias = c.flag("mlp_bias", false);
  if (attention_bias != mlp_bias) {
    c.error(attention_bias ? "attention_bias" : "mlp_bias", "hf.unsupported",
            "biases in only one of attention and feed-forward layers are not supported");
  }
  m.bias = attention_bias && mlp_bias;
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  return m;
}

/// The last folder of a path that names one, empty otherwise ("", ".", "..", "/").
std::string last_folder(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return name == "." || name == ".." ? "" : name;
}

/// What the file says of itself, else its folder, else the type of the model.
std::string name_from(Config& c, const std::filesystem::path& file, const std::string& type) {
  std::string name = last_folder(c.text("_name_or_path", ""));
  std::error_code failure;
  if (name.empty())
    name =
        last_folder(std::filesystem::weakly_canonical(std::filesystem::absolute(file), failure).parent_path().string());
  if (name.empty()) name = type;
  return name.substr(0, 200);
}

}  // namespace

std::optional<ModelSpec> parse_hf_config(std::string text, const std::filesystem::path& file,
                                         Diagnostics& diagnostics) {
  Origin origin;
  origin.file = file.string();
  origin.text = std::move(text);
  if (nests_deeper(origin.text, 64)) {
    diagnostics.error_at(origin, {1, 1}, "hf.syntax", "values are nested too deeply");
    return std::nullopt;
  }
  json object;
  try {
    object = json::parse(origin.text);
  } catch (const json::parse_error& failure) {
    const Position at = position_at(origin.text, failure.byte > 0 ? failure.byte - 1 : 0);
    diagnostics.error_at(origin, at, "hf.syntax", "not valid JSON");
    return std::nullopt;
  } catch (const json::exception&) {  // no place given
    diagnostics.error_at(origin, {1, 1}, "hf.syntax", "the file holds a number that no type can hold");
    return std::nullopt;
  }
  if (!object.is_object()) {
    diagnostics.error_at(origin, {1, 1}, "hf.syntax", "a config.json holds one object in braces");
    return std::nullopt;
  }
  record_positions(object, origin);
  const std::size_t before = diagnostics.size();
  Config config(object, origin, diagnostics);
  if (config.find("model_type") == nullptr) {
    config.error("model_type", "hf.missing-key", "the key model_type is missing", {"Supported: gpt2, llama."});
    return std::nullopt;
  }
  const std::string type = config.text("model_type", "");
  if (diagnostics.size() != before) return std::nullopt;
  if (type != "gpt2" && type != "llama") {
    config.error("model_type", "hf.model-type", fmt::format("model type \"{}\" is not supported", type),
                 {"Supported: gpt2, llama.",
                  "A model of another type with the same layers can be written as a .toml file: orrery show model "
                  "gpt2-124m shows one."});
    return std::nullopt;
  }
  ModelSpec model = type == "gpt2" ? gpt2(config) : llama(config);
  model.name = name_from(config, file, type);
  model.source = "Hugging Face configuration, model type " + type;
  if (diagnostics.size() != before) return std::nullopt;
  // check_model speaks of our keys; let its positions point at theirs.
  const std::pair<const char*, const char*> aliases[] = {
      {"layers", type == "gpt2" ? "n_layer" : "num_hidden_layers"},
      {"heads", type == "gpt2" ? "n_head" : "num_attention_heads"},
      {"kv_heads", "num_key_value_heads"},
      {"head_dim", "head_dim"},
      {"rope_scaling", "rope_scaling"},
  };
  for (const auto& [ours, theirs] : aliases) {
    const auto at = origin.positions.find(theirs);
    if (at != origin.positions.end()) origin.positions["model." + std::string(ours)] = at->second;
  }
  model.origin = std::move(origin);
  if (!check_model(model, diagnostics)) return std::nullopt;
  return model;
}

std::optional<ModelSpec> read_hf_config(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_hf_config(std::move(*text), file, diagnostics);
}

}  // namespace orrery
