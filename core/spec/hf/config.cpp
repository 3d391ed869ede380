#include "core/spec/hf/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace orrery::hf {

using nlohmann::json;

struct Config::Values {
  const json& given;
  json absent;  ///< the tables'
};

Config::Config(const json& object, const Family& family, const Origin& origin, Diagnostics& diagnostics)
    : family_(family),
      origin_(origin),
      diagnostics_(diagnostics),
      values_(new Values{object, json::object()}),
      before_(diagnostics.size()) {
  for (const Keys& keys : family.tables) {
    for (const Key& k : keys) {
      const bool has_value = k.use == Use::read || k.use == Use::only;
      if (has_value && !values_->absent.contains(k.name)) values_->absent[std::string(k.name)] = json::parse(k.value);
    }
  }
}

Config::~Config() = default;

bool Config::knows(const char* key) const {
  const Key* row = find_key(family_.tables, key);
  return row != nullptr && row->use == Use::read;
}

const json* Config::given(const char* key) const {
  const auto at = values_->given.find(key);
  return at == values_->given.end() || at->is_null() ? nullptr : &*at;
}

const json* Config::find(const char* key) const {
  ORRERY_ASSERT(values_->absent.contains(key), key, family_.type);
  const auto at = values_->given.find(key);
  const bool given = at != values_->given.end() && !at->is_null();
  // The table has the values of keys that are not read: where a file's value differs, it has been refused.
  const Key* row = find_key(family_.tables, key);
  if (given && row->use == Use::read) return &*at;
  const json& absent = values_->absent[key];
  return absent.is_null() ? nullptr : &absent;
}

bool Config::none(const char* key) const {
  const auto at = values_->given.find(key);
  const bool is_read = find_key(family_.tables, key)->use == Use::read;
  return is_read && at != values_->given.end() ? at->is_null() : find(key) == nullptr;
}

void Config::error(const std::string& key, std::string code, std::string message, std::vector<std::string> details) {
  diagnostics_.error(origin_, key, std::move(code), std::move(message), std::move(details));
}

std::uint64_t Config::whole_of(const json& value, const char* key, std::uint64_t least, std::uint64_t most) {
  if (!value.is_number_integer()) {
    std::vector<std::string> details;
    if (value.is_number_float()) details.push_back(fmt::format("It is {}.", shown(value)));
    error(key, "hf.type", fmt::format("{} is not a whole number", key), std::move(details));
    return 1;
  }
  const bool negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  if (negative || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most) {
    error(key, "hf.range", fmt::format("{} is out of range", key),
          {fmt::format("It is {}; from {} to {} is allowed.", value.dump(), least, most)});
    return 1;
  }
  return value.get<std::uint64_t>();
}

std::uint64_t Config::whole(const char* key, std::uint64_t most, std::optional<std::uint64_t> derived) {
  const json* value = find(key);
  if (value != nullptr) return whole_of(*value, key, 1, most);
  if (!derived) error(key, "hf.missing-key", fmt::format("the key {} is missing", key));
  return derived.value_or(1);
}

std::uint64_t Config::whole_from_zero(const char* key, std::uint64_t most) {
  return none(key) ? 0 : whole_of(*find(key), key, 0, most);
}

std::uint64_t Config::side(const char* key, std::uint64_t most) {
  const json* value = find(key);
  if (value == nullptr || !value->is_array()) return whole(key, most);
  if (value->size() != 2 || (*value)[0] != (*value)[1]) {
    error(key, "hf.unsupported", fmt::format("{} is not the same on both sides", key),
          {fmt::format("It is {}; supported: one number, or two that are equal.", shown(*value))});
    return 1;
  }
  return whole_of((*value)[0], key, 1, most);
}

std::optional<std::uint64_t> Config::entries(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if ((!value->is_object() && !value->is_array()) || value->empty()) {
    error(key, "hf.type", fmt::format("{} is not a list of names", key));
    return std::nullopt;
  }
  return value->size();
}

double Config::number(const char* key, double least, double most) {
  ORRERY_ASSERT(find(key) != nullptr, key);
  const json object{{key, *find(key)}};
  return number_in(object, key, key, least, most).value_or(least);
}

std::optional<double> Config::number_in(const json& object, const char* key, const std::string& path, double least,
                                        double most) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return std::nullopt;
  if (!at->is_number()) {
    error(path, "hf.type", fmt::format("{} is not a number", path));
    return std::nullopt;
  }
  const double value = at->get<double>();
  if (!(value >= least && value <= most)) {
    error(path, "hf.range", fmt::format("{} is out of range", path),
          {fmt::format("It is {}; from {} to {} is allowed.", shown(*at), least, most)});
    return std::nullopt;
  }
  return value;
}

std::vector<std::string> Config::texts(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), [](const json& v) { return v.is_string(); })) {
    error(key, "hf.type", fmt::format("{} is not a list of names", key));
    return {};
  }
  return value->get<std::vector<std::string>>();
}

std::vector<std::uint64_t> Config::wholes(const char* key, std::uint64_t most) {
  const json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    error(key, "hf.type", fmt::format("{} is not a list of whole numbers", key));
    return {};
  }
  std::vector<std::uint64_t> all;
  for (const json& v : *value) {
    all.push_back(whole_of(v, key, 0, most));
    if (!good()) return {};
  }
  return all;
}

bool Config::flag(const char* key) {
  const json* value = find(key);
  ORRERY_ASSERT(value != nullptr, key);
  if (!value->is_boolean()) {
    error(key, "hf.type", fmt::format("{} is not true or false", key));
    return false;
  }
  return value->get<bool>();
}

std::string Config::text(const char* key) {
  const json* value = find(key);
  ORRERY_ASSERT(value != nullptr, key);
  if (value->is_string()) return value->get<std::string>();
  error(key, "hf.type", fmt::format("{} is not a text", key));
  return "";
}

std::string Config::choice(const char* key, const std::vector<std::string>& known) {
  std::string name = text(key);
  if (find(key)->is_string() && std::find(known.begin(), known.end(), name) == known.end()) {
    error(key, "hf.unsupported", fmt::format("{} {} is not supported", key, shown(*find(key))),
          {fmt::format("Supported: {}.", fmt::join(known, ", "))});
  }
  return name;
}

void heads_divide(Config& c, const ModelSpec& m, const char* heads, const char* hidden) {
  if (!c.good() || m.hidden % m.heads == 0) return;
  c.error(heads, "model.heads", fmt::format("{} does not divide {}", heads, hidden),
          {fmt::format("{} is {}, and {} / {} leaves {}.", hidden, m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
}

}  // namespace orrery::hf
