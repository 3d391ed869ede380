#include "framework/launch/launch_value.hpp"

#include "core/base/toml_document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "framework/launch/launch_syntax.hpp"

namespace orrery {
namespace {

std::string joined(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

/// Adds values up to the limit; the file counts as too large afterwards.
class Values {
 public:
  explicit Values(std::vector<LaunchValue>& into) : into_(into) {}
  [[nodiscard]] bool room() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  [[nodiscard]] bool full() const { return left_ == 0; }
  std::vector<LaunchValue>& all() { return into_; }

 private:
  std::vector<LaunchValue>& into_;
  std::size_t left_ = launch_value_limit;
};

// YAML.

Position place(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  if (mark.is_null()) return {1, 1};
  return {static_cast<std::uint32_t>(mark.line) + 1, static_cast<std::uint32_t>(mark.column) + 1};
}

LaunchValue scalar(const YAML::Node& node) {
  LaunchValue out;
  out.text = node.Scalar();
  // yaml-cpp's tag "!" marks quoted scalars.
  if (node.Tag() == "!") {
    out.kind = LaunchValue::Kind::text;
    return out;
  }
  std::string lower = out.text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "false" || lower == "no" || lower == "off") {
    out.kind = LaunchValue::Kind::flag;
    out.text = lower == "true" || lower == "yes" || lower == "on" ? "true" : "false";
  } else {
    out.kind = is_launch_number(out.text) ? LaunchValue::Kind::number : LaunchValue::Kind::text;
  }
  return out;
}

void flatten(const YAML::Node& node, const std::string& path, Position at, int depth, Values& values,
             std::vector<LaunchValue>& into);

LaunchValue converted(const YAML::Node& node, Position at, int depth, Values& values) {
  LaunchValue out;
  if (node.IsScalar()) {
    out = scalar(node);
  } else if (node.IsSequence()) {
    out.kind = LaunchValue::Kind::list;
    for (const YAML::Node& item : node) {
      if (depth == 0 || !values.room()) break;
      out.items.push_back(converted(item, place(item), depth - 1, values));
    }
  } else if (node.IsMap()) {
    out.kind = LaunchValue::Kind::table;
    if (node.size() > 0) flatten(node, "", at, depth, values, out.items);
  }
  out.position = at;
  return out;
}

void flatten(const YAML::Node& node, const std::string& path, Position at, int depth, Values& values,
             std::vector<LaunchValue>& into) {
  if (depth == 0 || !values.room()) return;
  if (!node.IsMap() || node.size() == 0) {
    LaunchValue value = converted(node, at, depth, values);
    value.key = path;
    into.push_back(std::move(value));
    return;
  }
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : std::string("?");
    const bool empty = entry.second.IsNull() || !entry.second.IsDefined();
    flatten(entry.second, joined(path, key), empty ? place(entry.first) : place(entry.second), depth - 1, values, into);
  }
}

// TOML.

void flatten(const TomlNode& node, const std::string& path, Values& values, std::vector<LaunchValue>& into);

LaunchValue converted(const TomlNode& node, Values& values) {
  using Kind = LaunchValue::Kind;
  LaunchValue out;
  out.position = node.position;
  if (const auto* text = std::get_if<std::string>(&node.value)) {
    out.kind = Kind::text;
    out.text = *text;
  } else if (const auto* whole = std::get_if<std::int64_t>(&node.value)) {
    out.kind = Kind::number;
    out.text = std::to_string(*whole);
  } else if (const auto* real = std::get_if<double>(&node.value)) {
    out.kind = Kind::number;
    out.text = fmt::format("{}", *real);
  } else if (const auto* flag = std::get_if<bool>(&node.value)) {
    out.kind = Kind::flag;
    out.text = *flag ? "true" : "false";
  } else if (const auto* list = std::get_if<TomlNode::Array>(&node.value)) {
    out.kind = Kind::list;
    for (const TomlNode& item : *list) {
      if (!values.room()) break;
      out.items.push_back(converted(item, values));
    }
  } else if (std::holds_alternative<TomlNode::Table>(node.value)) {
    out.kind = Kind::table;
    flatten(node, "", values, out.items);
  } else {
    out.kind = Kind::text;
  }
  return out;
}

void flatten(const TomlNode& node, const std::string& path, Values& values, std::vector<LaunchValue>& into) {
  if (!values.room()) return;
  const auto* table = std::get_if<TomlNode::Table>(&node.value);
  if (table == nullptr || (table->empty() && !path.empty())) {
    LaunchValue value;
    if (table == nullptr)
      value = converted(node, values);
    else
      value.kind = LaunchValue::Kind::table, value.position = node.position;
    value.key = path;
    into.push_back(std::move(value));
    return;
  }
  for (const auto& [key, child] : *table) flatten(child, joined(path, key), values, into);
}

bool refuse_size(const Values& values, const LaunchFile& file, Diagnostics& d) {
  if (!values.full()) return false;
  d.error_at(file.origin, {1, 1}, "launch.size", "the file has too many values",
             {fmt::format("At most {} are read.", launch_value_limit)});
  return true;
}

}  // namespace

bool is_launch_number(const std::string& text) {
  std::string digits = text;
  std::erase(digits, '_');
  if (digits.empty() || digits.find_first_of("0123456789") == std::string::npos) return false;
  if (digits.find_first_not_of("0123456789+-.eE") != std::string::npos) return false;
  std::size_t end = 0;
  try {
    static_cast<void>(std::stod(digits, &end));
  } catch (const std::exception&) {
    return false;
  }
  return end == digits.size();
}

const LaunchValue* LaunchFile::find(std::string_view key) const {
  const auto at = std::find_if(values.rbegin(), values.rend(), [&](const LaunchValue& v) { return v.key == key; });
  return at == values.rend() ? nullptr : &*at;
}

bool LaunchFile::has(std::string_view path) const {
  return std::any_of(values.begin(), values.end(), [&](const LaunchValue& v) {
    return v.key.starts_with(path) && (v.key.size() == path.size() || v.key[path.size()] == '.');
  });
}

std::optional<LaunchFile> parse_launch_yaml(std::string text, std::string file, Diagnostics& d) {
  LaunchFile out{LaunchSyntax::yaml, {std::move(file), std::move(text), {}}, {}};
  const auto refuse = [&](const YAML::Mark& mark, const std::string& message) {
    d.error_at(out.origin,
               {static_cast<std::uint32_t>(std::max(mark.line, 0)) + 1,
                static_cast<std::uint32_t>(std::max(mark.column, 0)) + 1},
               "launch.syntax", message);
  };
  // yaml-cpp refuses some JSON: pairs of \u, and long keys. What is not JSON may be YAML.
  const std::size_t first = out.origin.text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != std::string::npos && out.origin.text[first] == '{') {
    if (auto values = parse_launch_json(out.origin.text)) {
      out.values = *std::move(values);
      return out;
    }
  }
  try {
    const YAML::Node root = YAML::Load(out.origin.text);
    if (!root.IsMap()) {
      refuse(YAML::Mark::null_mark(), "a launch file is a table of keys and values");
      return std::nullopt;
    }
    constexpr int deepest = 32;  // Slices of models nest a dozen deep.
    Values values(out.values);
    flatten(root, "", {1, 1}, deepest, values, out.values);
    if (refuse_size(values, out, d)) return std::nullopt;
  } catch (const YAML::Exception& e) {
    refuse(e.mark, fmt::format("not valid YAML: {}", e.msg.substr(0, 120)));
    return std::nullopt;
  }
  return out;
}

std::optional<LaunchFile> parse_launch_toml(std::string text, std::string file, Diagnostics& d) {
  const auto document = parse_document(std::move(text), std::move(file), d);
  if (!document) return std::nullopt;
  LaunchFile out{LaunchSyntax::toml, document->origin, {}};
  Values values(out.values);
  flatten(document->root, "", values, out.values);
  if (refuse_size(values, out, d)) return std::nullopt;
  return out;
}

}  // namespace orrery
