#include "core/base/toml_writer.hpp"

#include <fmt/format.h>

namespace orrery {

std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

TomlWriter& TomlWriter::comment(std::string_view text) {
  out_ += fmt::format("# {}\n", text);
  return *this;
}

TomlWriter& TomlWriter::table(std::string_view path) {
  out_ += fmt::format("{}[{}]\n", out_.empty() ? "" : "\n", path);
  return *this;
}

TomlWriter& TomlWriter::array_table(std::string_view path) {
  out_ += fmt::format("{}[[{}]]\n", out_.empty() ? "" : "\n", path);
  return *this;
}

TomlWriter& TomlWriter::raw(std::string_view key, std::string_view value) {
  out_ += fmt::format("{} = {}\n", key, value);
  return *this;
}

TomlWriter& TomlWriter::text(std::string_view key, std::string_view value) { return raw(key, toml_quoted(value)); }
TomlWriter& TomlWriter::whole(std::string_view key, std::uint64_t value) { return raw(key, std::to_string(value)); }
TomlWriter& TomlWriter::number(std::string_view key, double value) { return raw(key, fmt::format("{}", value)); }
TomlWriter& TomlWriter::flag(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }

TomlWriter& TomlWriter::wholes(std::string_view key, const std::vector<std::uint32_t>& values) {
  return raw(key, fmt::format("[{}]", fmt::join(values, ", ")));
}

TomlWriter& TomlWriter::numbers(std::string_view key, const std::vector<double>& values) {
  return raw(key, fmt::format("[{}]", fmt::join(values, ", ")));
}

TomlWriter& TomlWriter::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& v : values) list += (list.empty() ? "" : ", ") + toml_quoted(v);
  return raw(key, "[" + list + "]");
}

}  // namespace orrery
