#include "core/spec/hf_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/spec_files.hpp"

namespace orrery::hf {

using nlohmann::json;

const json* Config::find(const char* key) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void Config::error(const char* key, std::string code, std::string message, std::vector<std::string> details) {
  diagnostics_.error(origin_, key, std::move(code), std::move(message), std::move(details));
}

std::uint64_t Config::whole(const char* key, std::optional<std::uint64_t> absent, std::uint64_t most) {
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

std::uint64_t Config::whole_from_zero(const char* key, std::uint64_t most) {
  const json* value = find(key);
  if (value != nullptr && value->is_number_unsigned() && value->get<std::uint64_t>() == 0) return 0;
  return whole(key, std::nullopt, most);
}

std::uint64_t Config::entries(const char* key, std::uint64_t absent) {
  const json* value = find(key);
  if (value == nullptr) return absent;
  if ((!value->is_object() && !value->is_array()) || value->empty()) {
    error(key, "hf.type", fmt::format("{} is no list of names", key));
    return absent;
  }
  return value->size();
}

double Config::number(const char* key, double absent, double least, double most) {
  return number_in(object_, key, key, absent, least, most);
}

double Config::number_in(const json& where, const char* key, const char* shown, double absent, double least,
                         double most) {
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

bool Config::flag(const char* key, bool absent) {
  const json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    error(key, "hf.type", fmt::format("{} is not true or false", key));
    return absent;
  }
  return value->get<bool>();
}

std::string Config::text(const char* key, const char* absent) {
  const json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_string()) {
    error(key, "hf.type", fmt::format("{} is not a text", key));
    return absent;
  }
  return value->get<std::string>();
}

void Config::only(const char* key, const char* absent, const std::vector<std::string>& known) {
  const std::string value = text(key, absent);
  for (const std::string& k : known) {
    if (k == value) return;
  }
  error(key, "hf.unsupported", fmt::format("{} \"{}\" is not supported", key, value),
        {fmt::format("Supported: {}.", fmt::join(known, ", "))});
}

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

void heads_divide(Config& c, const ModelSpec& m, const char* heads, const char* hidden) {
  if (!c.good() || m.hidden % m.heads == 0) return;
  c.error(heads, "model.heads", fmt::format("{} does not divide {}", heads, hidden),
          {fmt::format("{} is {}, and {} / {} leaves {}.", hidden, m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
}

}  // namespace orrery::hf
