#include "core/spec/hf/part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf/config.hpp"

namespace orrery::hf {
namespace {

using nlohmann::json;

/// Keeps the keys that the part's type knows, where older files have them beside those of the whole.
void keep_known(File& file, const Family& family) {
  json& object = *file.object;
  const auto known = [&](const std::string& name) {
    const bool of_whole = name == "model_type" || name == "architectures" || name == "vision_config";
    return !of_whole && find_key(family.tables, name) != nullptr;
  };
  for (auto at = object.begin(); at != object.end();) at = known(at.key()) ? std::next(at) : object.erase(at);
  std::erase_if(file.keys, [&](const Place& p) { return !object.contains(p.nested ? p.outer : p.name); });
}

bool says_true(const json& object, const char* key, bool absent) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() ? at->get<bool>() : absent;
}

/// tie_word_embeddings of the whole, where the language model's own type has that key.
void tie_head(json& object, const json& whole, std::string_view tied) {
  constexpr const char* key = "tie_word_embeddings";
  if (tied == said_tie) {
    const auto at = whole.find(key);
    if (at != whole.end() && at->is_boolean() && !object.contains(key)) object[key] = *at;
    return;
  }
  object[key] = says_true(whole, key, tied == "true") || says_true(object, key, false);
}

}  // namespace

const json* object_at(const json& whole, std::string_view key) {
  const std::size_t dot = key.find('.');
  const auto at = whole.find(key.substr(0, dot));
  if (at == whole.end() || !at->is_object()) return nullptr;
  return dot == std::string_view::npos ? &*at : object_at(*at, key.substr(dot + 1));
}

std::optional<LanguageFile> open_language(const File& whole, const Family& outer, Diagnostics& d) {
  const Part& part = outer.language;
  const std::string key(part.key);
  const json* given = object_at(*whole.object, key);
  const bool has = given != nullptr;
  if (!has && whole.object->contains(key) && !whole.object->at(key).is_null()) {
    d.error(whole.origin, key, "hf.type", fmt::format("{} is not an object", key));
    return std::nullopt;
  }
  LanguageFile out;
  std::string type(part.type);
  if (has) {
    std::optional<File> inner = open_file(whole.origin.text, whole.origin.file, d, key);
    if (!inner) return std::nullopt;
    out.file = std::move(*inner);
    const auto own = given->find("model_type");
    // Some files repeat the type of the whole.
    if (own != given->end() && own->is_string() && *own != outer.type) type = own->get<std::string>();
  } else {
    out.file = whole;
    out.file.object = std::make_shared<json>(part.flat ? *whole.object : json::object());
    out.file.origin.positions.clear();
    if (!part.absent.empty()) *out.file.object = json::parse(part.absent);
    if (!part.flat) out.file.keys.clear();
  }
  out.family = family_of(type);
  if (out.family == nullptr) {
    d.error(whole.origin, key, "hf.model-type",
            fmt::format("model type {} in {} is not supported", shown(json(type)), key));
    return std::nullopt;
  }
  if (!has) keep_known(out.file, *out.family);
  json& object = *out.file.object;
  if (!part.tied.empty() && find_key(out.family->tables, "tie_word_embeddings") != nullptr)
    tie_head(object, *whole.object, part.tied);
  return out;
}

ModelSpec read_language(const File& whole, const Family& outer, Diagnostics& d) {
  std::optional<LanguageFile> opened = open_language(whole, outer, d);
  if (!opened) return {};
  static_cast<void>(sort_keys(opened->file, *opened->family, d));
  ModelSpec model;
  {
    Config config(*opened->file.object, *opened->family, opened->file.origin, d);
    model = opened->family->read(config);
    if (!config.good()) return {};
  }
  place_rules(*opened->family, opened->file.origin);
  model.origin = std::move(opened->file.origin);
  model.source = fmt::format("Hugging Face configuration, language model of type {}", opened->family->type);
  return model;
}

std::vector<std::string> unread_in_language(const File& whole, const Family& outer) {
  Diagnostics told;  // when the model was read
  std::optional<LanguageFile> opened = open_language(whole, outer, told);
  if (!opened) return {};
  std::vector<std::string> keys = sort_keys(opened->file, *opened->family, told);
  for (std::string& key : keys) key = std::string(outer.language.key) + "." + key;
  return keys;
}

void place_rules(const Family& family, Origin& origin) {
  for (const Keys& keys : family.tables) {
    for (const Key& key : keys) {
      const auto at = origin.positions.find(std::string(key.name));
      if (key.use != Use::read || key.about.empty() || at == origin.positions.end()) continue;
      origin.positions.emplace("model." + std::string(key.about), at->second);
    }
  }
}

}  // namespace orrery::hf
