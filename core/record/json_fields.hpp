#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/base/diagnostics.hpp"
#include "core/base/json_text.hpp"

namespace orrery {

/// Strict reading of one JSON object: every key must be known, present and of
/// the right type; each mistake becomes a diagnostic that names the key's path.
class JsonFields {
 public:
  /// `path` is the object's place in the file: "memory_by_stage[2]".  Keeps
  /// references to `object` and `diagnostics`.
  JsonFields(const nlohmann::json& object, std::string path, std::string file, std::string code,
             Diagnostics& diagnostics);

  void read(const char* key, double& to);
  void read(const char* key, std::uint64_t& to);
  void read(const char* key, std::uint32_t& to);
  void read(const char* key, bool& to);
  void read(const char* key, std::string& to);
  /// A key that may be absent.
  template <class T>
  void read_optional(const char* key, std::optional<T>& to) {
    if (!has(key)) return;
    T value{};
    read(key, value);
    to = value;
  }
  /// Calls visit for every object in the array `key`.
  void each(const char* key, const std::function<void(JsonFields&)>& visit);
  /// The value of `key`, or nullptr with a diagnostic.
  const nlohmann::json* find(const char* key);
  /// Whether the object has `key`, which is known from now on.
  bool has(const char* key);

  void error(const std::string& where, const std::string& what);
  [[nodiscard]] std::string at(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  /// Reports keys that nobody asked for.
  void close();

 private:
  const nlohmann::json& object_;
  std::string path_;
  std::string file_;
  std::string code_;
  Diagnostics& diagnostics_;
  std::set<std::string> known_;
};

/// Parses JSON into `to` (parse_json_text); for each mistake adds a diagnostic
/// with line and column, and returns false.
[[nodiscard]] bool parse_json(std::string_view text, const std::string& file, const std::string& code,
                              Diagnostics& diagnostics, nlohmann::json& to, const JsonReading& = {});

/// Reports a schema version other than 1; true when it may be read.
[[nodiscard]] bool check_version(JsonFields& fields, const char* what);

}  // namespace orrery
