#include "core/spec/hf/file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/json_text.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/spec/hf/part.hpp"
#include "core/spec/hf/stranger.hpp"

namespace orrery::hf {
namespace {

using nlohmann::json;

/// Whether brackets nest deeper than in any config. The parser's value tree is freed recursively.
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

/// Replaces numbers that are not finite, as the library tags them where plain JSON is asked of it: {"__float__":
/// "NaN"}.
void untag_numbers(json& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.size() == 1 && value.contains("__float__")) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const json tag = value["__float__"];
    if (tag == "NaN") value = std::numeric_limits<double>::quiet_NaN();
    if (tag == "Infinity") value = infinity;
    if (tag == "-Infinity") value = -infinity;
    return;
  }
  for (json& inner : value) untag_numbers(inner);
}

/// The types that are read: those whose names are near to `type`, and how many there are.
std::vector<std::string> supported(const std::string& type) {
  std::vector<std::string> names, out;
  for (const Family& f : families()) names.emplace_back(f.type);
  const std::vector<std::string> near = nearest(type, names, 3);
  if (!near.empty()) out.push_back(fmt::format("Near it: {}.", fmt::join(near, ", ")));
  out.push_back(fmt::format("{} types are read; docs/model-file.md lists them.", names.size()));
  return out;
}

/// Whether the tables have keys inside an object of this name: "attn_config.clip_qkv".
bool has_inner_keys(const Family& family, std::string_view outer) {
  for (const Keys& keys : family.tables) {
    for (const Key& k : keys) {
      if (k.name.size() > outer.size() && k.name.starts_with(outer) && k.name[outer.size()] == '.') return true;
    }
  }
  return false;
}

/// Whether a key inside an object says what keys of every model say: a name, a token, how the library runs it.
bool is_general(std::string_view name) {
  const std::vector<Keys> common{common_keys(), inner_keys()};
  const Key* key = find_key(common, name);
  return key != nullptr && (key->use == Use::no_effect || key->use == Use::read);
}

/// Refuses a value that asks for another model than the file would be without the key.
void check_only(const Origin& origin, const std::string& path, const Key& key, const json& value, Diagnostics& d) {
  if (value.is_null() || (value.is_structured() && value.empty())) return;
  const json allowed = json::parse(key.value);
  if (value == allowed) return;
  d.error(origin, path, "hf.unsupported", fmt::format("{} {} is not supported", path, shown(value)),
          {fmt::format("It asks for {}. Supported: {}.", key.about, shown(allowed))});
}

}  // namespace

std::optional<File> open_file(std::string text, std::string name, Diagnostics& diagnostics, std::string_view part) {
  File file;
  file.object = std::make_shared<json>();
  file.origin.file = std::move(name);
  file.origin.text = std::move(text);
  const Origin& origin = file.origin;
  if (nests_deeper(origin.text, 64)) {
    diagnostics.error_at(origin, {1, 1}, "hf.syntax", "values are nested too deeply");
    return std::nullopt;
  }
  JsonReading reading;
  reading.non_finite = true;
  const auto deep = part.empty() ? 0 : 1 + static_cast<int>(std::count(part.begin(), part.end(), '.'));
  std::vector<std::string> around;  // the keys down to the present one
  std::string outer;
  reading.key_seen = [&](int depth, const std::string& key, std::size_t byte) {
    around.resize(static_cast<std::size_t>(depth));
    around.back() = key;
    const int inside = depth - deep;
    if (inside < 1 || inside > 2) return;
    if (deep > 0 && fmt::format("{}", fmt::join(around.begin(), around.begin() + deep, ".")) != part) return;
    if (inside == 1) outer = key;
    file.keys.push_back({key, outer, inside == 2, byte});
  };
  const std::vector<JsonMistake> mistakes = parse_json_text(origin.text, *file.object, reading);
  for (const JsonMistake& m : mistakes) {
    std::string what = "not valid JSON";
    if (m.kind == JsonMistake::Kind::number) what = "the file holds a number that no type can hold";
    if (m.kind == JsonMistake::Kind::key)
      what = fmt::format("the key \"{}\" stands twice in this object", escaped(m.key));
    diagnostics.error_at(origin, position_at(origin.text, m.byte), "hf.syntax", std::move(what));
  }
  if (!mistakes.empty()) return std::nullopt;
  if (!file.object->is_object()) {
    diagnostics.error_at(origin, {1, 1}, "hf.syntax", "a config.json holds one object in braces");
    return std::nullopt;
  }
  untag_numbers(*file.object);
  if (part.empty()) return file;
  const json* inner = object_at(*file.object, part);
  json chosen = inner != nullptr ? *inner : json::object();
  *file.object = std::move(chosen);
  return file;
}

const Family* family_of(const File& file, Diagnostics& diagnostics) {
  const auto type = file.object->find("model_type");
  if (type == file.object->end() || type->is_null()) {
    diagnostics.error(file.origin, "model_type", "hf.missing-key", "the key model_type is missing", supported(""));
    return nullptr;
  }
  const auto place = std::find_if(file.keys.begin(), file.keys.end(),
                                  [](const Place& k) { return k.name == "model_type" && !k.nested; });
  const Position at = position_at(file.origin.text, value_offset(file.origin.text, place->byte));
  if (!type->is_string()) {
    diagnostics.error_at(file.origin, at, "hf.type", "model_type is not a text");
    return nullptr;
  }
  const Family* family = family_of(type->get_ref<const std::string&>());
  if (family == nullptr) family = stranger_around(file);
  if (family == nullptr) {
    std::vector<std::string> details = supported(type->get<std::string>());
    details.emplace_back(
        "A model of another type with the same layers can be written as a .toml file: orrery show model gpt2-124m "
        "shows "
        "one.");
    diagnostics.error_at(file.origin, at, "hf.model-type", fmt::format("model type {} is not supported", shown(*type)),
                         std::move(details));
  }
  return family;
}

std::vector<std::string> sort_keys(File& file, const Family& family, Diagnostics& d) {
  Origin& origin = file.origin;
  json& object = *file.object;
  std::vector<std::string> unread;
  std::vector<std::pair<const Key*, std::string>> renamed;
  const std::vector<Keys> rope{rope_keys()};
  for (const Place& place : file.keys) {
    const bool of_rope = place.outer == "rope_scaling" || place.outer == "rope_parameters";
    const bool flattened = place.nested && has_inner_keys(family, place.outer);
    if (!place.nested && has_inner_keys(family, place.name)) {  // its inner keys follow
      const json& inner = object[place.name];
      origin.positions[place.name] = position_at(origin.text, value_offset(origin.text, place.byte));
      if (!inner.is_object() && !inner.is_null())
        d.error(origin, place.name, "hf.type", fmt::format("{} is not an object", place.name));
      continue;
    }
    if (place.nested && !flattened && (!of_rope || find_key(family.tables, place.outer) == nullptr)) continue;
    const std::vector<Keys>& tables = place.nested && !flattened ? rope : family.tables;
    const std::string path = place.path();
    const Key* key = find_key(tables, flattened ? std::string_view(path) : std::string_view(place.name));
    if (flattened && key == nullptr && is_general(place.name)) continue;
    if (key == nullptr) {
      const std::string_view near = near_key(tables, flattened ? path : place.name);
      if (near.empty()) {
        unread.push_back(path);
      } else {
        d.error_at(origin, position_at(origin.text, place.byte), "hf.unknown-key",
                   fmt::format("{} is not a key of {}", escaped(place.name), place.nested ? place.outer : family.type),
                   {fmt::format("Did you mean {}?", near)});
      }
      continue;
    }
    origin.positions[path] = position_at(origin.text, value_offset(origin.text, place.byte));
    const json value = place.nested ? object[place.outer][place.name] : object[place.name];
    if (flattened) object[path] = value;
    if (key->use == Use::only) check_only(origin, path, *key, value, d);
    if (key->use == Use::same_as) renamed.emplace_back(key, path);
  }
  for (const auto& [key, path] : renamed) {
    const std::string own(key->value);
    if (object.contains(own) && object[own] != object[path]) {
      d.error(origin, path, "hf.unsupported",
              fmt::format("{} and {} are names of the same key, but their values differ", path, own),
              {fmt::format("They are {} and {}.", shown(object[path]), shown(object[own]))});
    }
    object[own] = object[path];
    origin.positions[own] = origin.positions[path];
  }
  return unread;
}

}  // namespace orrery::hf
