#include "core/record/json_fields.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"

namespace orrery {

using nlohmann::json;

JsonFields::JsonFields(const json& object, std::string path, std::string file, std::string code,
                       Diagnostics& diagnostics)
    : object_(object),
      path_(std::move(path)),
      file_(std::move(file)),
      code_(std::move(code)),
      diagnostics_(diagnostics) {
  if (!object_.is_object()) error(path_, "is not an object");
}

void JsonFields::read(const char* key, double& to) {
  const json* v = find(key);
  if (v == nullptr) return;
  if (v->is_number() && std::isfinite(v->get<double>())) {
    to = v->get<double>();
  } else {
    error(at(key), "is not a number");
  }
}

void JsonFields::read(const char* key, std::uint64_t& to) {
  const json* v = find(key);
  if (v == nullptr) return;
  if (v->is_number_unsigned()) {
    to = v->get<std::uint64_t>();
  } else {
    error(at(key), "is not a whole number of at least 0");
  }
}

void JsonFields::read(const char* key, std::uint32_t& to) {
  std::uint64_t wide = 0;
  read(key, wide);
  if (wide > UINT32_MAX) error(at(key), "is too large");
  to = static_cast<std::uint32_t>(wide);
}

void JsonFields::read(const char* key, bool& to) {
  const json* v = find(key);
  if (v == nullptr) return;
  if (v->is_boolean()) {
    to = v->get<bool>();
  } else {
    error(at(key), "is neither true nor false");
  }
}

void JsonFields::read(const char* key, std::string& to) {
  const json* v = find(key);
  if (v == nullptr) return;
  if (v->is_string()) {
    to = v->get<std::string>();
  } else {
    error(at(key), "is not a string");
  }
}

void JsonFields::each(const char* key, const std::function<void(JsonFields&)>& visit) {
  const json* v = find(key);
  if (v == nullptr) return;
  if (!v->is_array()) {
    error(at(key), "is not an array");
    return;
  }
  constexpr std::size_t most_mistakes = 100;  // a list of a million wrong values has said enough by then
  for (std::size_t i = 0; i < v->size() && diagnostics_.size() < most_mistakes; ++i) {
    JsonFields fields((*v)[i], at(key) + "[" + std::to_string(i) + "]", file_, code_, diagnostics_);
    if (!(*v)[i].is_object()) continue;
    visit(fields);
    fields.close();
  }
}

const json* JsonFields::find(const char* key) {
  if (has(key)) return &object_[key];
  if (object_.is_object()) error(at(key), "is missing");
  return nullptr;
}

bool JsonFields::has(const char* key) {
  known_.insert(key);
  return object_.is_object() && object_.contains(key);
}

void JsonFields::error(const std::string& where, const std::string& what) {
  diagnostics_.add({file_, {}, code_, (where.empty() ? std::string("the file") : where) + " " + what, {}, {}, {}});
}

void JsonFields::close() {
  if (!object_.is_object()) return;
  for (const auto& item : object_.items()) {
    if (!known_.contains(item.key())) error(at(item.key()), "is not a known key");
  }
}

bool parse_json(std::string_view text, const std::string& file, const std::string& code, Diagnostics& diagnostics,
                json& to, const JsonReading& reading) {
  const std::vector<JsonMistake> mistakes = parse_json_text(text, to, reading);
  for (const JsonMistake& m : mistakes) {
    Diagnostic d{file, position_at(text, m.byte), code, "this is not JSON", {}, {}, {}};
    if (m.kind == JsonMistake::Kind::number) d.message = "this JSON holds a number that no type can hold";
    if (m.kind == JsonMistake::Kind::key) d.message = "the key \"" + escaped(m.key) + "\" stands twice in this object";
    const std::size_t start = text.substr(0, m.byte).rfind('\n') + 1;  // 0 where there is none
    Excerpt shown = excerpt(text.substr(start, text.find('\n', start) - start), d.position.column);
    d.source_line = std::move(shown.line);
    d.caret_pad = std::move(shown.pad);
    diagnostics.add(std::move(d));
  }
  return mistakes.empty();
}

bool check_version(JsonFields& fields, const char* what) {
  std::uint64_t version = 0;
  if (!fields.has("version")) {
    fields.error(fields.at("version"), "is missing");
    return false;
  }
  fields.read("version", version);
  if (version == 1) return true;
  fields.error(fields.at("version"),
               "is " + std::to_string(version) + ", but this program reads version 1 of a " + what);
  return false;
}

}  // namespace orrery
