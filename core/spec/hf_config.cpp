#include "core/spec/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/json_text.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

using hf::Config;
using nlohmann::json;

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

struct Family {
  const char* type;  ///< model_type
  ModelSpec (*read)(Config&);
};
constexpr std::array families = {
    Family{"gpt2", hf::gpt2},      Family{"llama", hf::llama},          Family{"bert", hf::bert},
    Family{"vit", hf::vit},        Family{"deepseek_v2", hf::deepseek}, Family{"deepseek_v3", hf::deepseek},
    Family{"mixtral", hf::mixtral}};

std::string supported() {
  std::string all;
  for (const Family& f : families) all += (all.empty() ? "" : ", ") + std::string(f.type);
  return all;
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
  const std::vector<JsonMistake> mistakes = parse_json_text(origin.text, object);
  for (const JsonMistake& m : mistakes) {
    std::string what = "not valid JSON";
    if (m.kind == JsonMistake::Kind::number) what = "the file holds a number that no type can hold";
    if (m.kind == JsonMistake::Kind::key)
      what = fmt::format("the key \"{}\" stands twice in this object", escaped(m.key));
    diagnostics.error_at(origin, position_at(origin.text, m.byte), "hf.syntax", std::move(what));
  }
  if (!mistakes.empty()) return std::nullopt;
  if (!object.is_object()) {
    diagnostics.error_at(origin, {1, 1}, "hf.syntax", "a config.json holds one object in braces");
    return std::nullopt;
  }
  record_positions(object, origin);
  const std::size_t before = diagnostics.size();
  Config config(object, origin, diagnostics);
  if (config.find("model_type") == nullptr) {
    config.error("model_type", "hf.missing-key", "the key model_type is missing",
                 {fmt::format("Supported: {}.", supported())});
    return std::nullopt;
  }
  const std::string type = config.text("model_type", "");
  if (diagnostics.size() != before) return std::nullopt;
  const auto family = std::find_if(families.begin(), families.end(), [&](const Family& f) { return type == f.type; });
  if (family == families.end()) {
    config.error("model_type", "hf.model-type", fmt::format("model type \"{}\" is not supported", type),
                 {fmt::format("Supported: {}.", supported()),
                  "A model of another type with the same layers can be written as a .toml file: orrery show model "
                  "gpt2-124m shows one."});
    return std::nullopt;
  }
  ModelSpec model = family->read(config);
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
      {"image.patch", "patch_size"},
      {"image.size", "image_size"},
      {"mixture.per_token", "num_experts_per_tok"},
      {"latent.rope_dim", "qk_rope_head_dim"},
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
