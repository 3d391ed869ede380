#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Lines of a TOML file, in the order of the calls. What it writes reads back equal: numbers take the shortest form
/// that reads back exactly.
class TomlWriter {
 public:
  TomlWriter& comment(std::string_view text);
  TomlWriter& table(std::string_view path);        ///< [path]
  TomlWriter& array_table(std::string_view path);  ///< [[path]]
  TomlWriter& text(std::string_view key, std::string_view value);
  TomlWriter& whole(std::string_view key, std::uint64_t value);
  TomlWriter& number(std::string_view key, double value);
  TomlWriter& flag(std::string_view key, bool value);
  TomlWriter& wholes(std::string_view key, const std::vector<std::uint32_t>& values);
  TomlWriter& numbers(std::string_view key, const std::vector<double>& values);
  TomlWriter& texts(std::string_view key, const std::vector<std::string>& values);
  /// A value in TOML's own form: an inline table, for example.
  TomlWriter& raw(std::string_view key, std::string_view value);
  [[nodiscard]] const std::string& str() const { return out_; }

 private:
  std::string out_;
};

/// The text in quotes, with escapes where TOML needs them.
[[nodiscard]] std::string toml_quoted(std::string_view text);

}  // namespace orrery
