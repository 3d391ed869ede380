#include "core/base/toml_document.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <memory>

#include "core/base/toml_reader.hpp"

namespace orrery {
namespace {

Position position_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

TomlNode converted(const toml::node& node) {
  TomlNode out;
  out.position = position_of(node.source());
  switch (node.type()) {
    case toml::node_type::string: out.value = node.as_string()->get(); break;
    case toml::node_type::integer: out.value = node.as_integer()->get(); break;
    case toml::node_type::floating_point: out.value = node.as_floating_point()->get(); break;
    case toml::node_type::boolean: out.value = node.as_boolean()->get(); break;
    case toml::node_type::array: {
      TomlNode::Array list;
      for (const toml::node& item : *node.as_array()) list.push_back(converted(item));
      out.value = std::move(list);
      break;
    }
    case toml::node_type::table: {
      TomlNode::Table table;
      for (const auto& [key, item] : *node.as_table()) {
        TomlNode child = converted(item);
        child.key_position = position_of(key.source());
        table.push_back({std::string(key.str()), std::move(child)});
      }
      // The parser sorts keys; people expect the order of the file.
      std::stable_sort(table.begin(), table.end(), [](const auto& a, const auto& b) {
        const Position p = a.value.key_position;
        const Position q = b.value.key_position;
        return std::pair(p.line, p.column) < std::pair(q.line, q.column);
      });
      out.value = std::move(table);
      break;
    }
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time: out.value = TomlNode::Date{}; break;
  }
  return out;
}

void record_positions(const TomlNode& node, const std::string& path, std::map<std::string, Position>& into) {
  if (!path.empty()) into.emplace(path, node.position);
  const std::string prefix = path.empty() ? "" : path + ".";
  if (const auto* table = std::get_if<TomlNode::Table>(&node.value)) {
    for (const auto& [key, child] : *table) record_positions(child, prefix + key, into);
  } else if (const auto* array = std::get_if<TomlNode::Array>(&node.value)) {
    for (std::size_t i = 0; i < array->size(); ++i) record_positions((*array)[i], prefix + std::to_string(i), into);
  }
}

/// The parser recurses once per bracket and once per dotted key part, so a
/// hostile file could exhaust the stack.  No file of ours nests deeper than 4.
/// Returns the line of the first place nested too deeply, 0 when there is none.
std::uint32_t too_deep(std::string_view text) {
  constexpr int most_brackets = 32;
  constexpr int most_dots = 32;
  int brackets = 0;
  int dots = 0;
  std::uint32_t line = 1;
  bool comment = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      comment = false;
      dots = 0;
      continue;
    }
    if (comment) continue;
    switch (c) {
      case '#': comment = true; break;
      case '[':
      case '{':
        ++brackets;
        dots = 0;
        break;
      case ']':
      case '}':
        brackets = std::max(0, brackets - 1);
        dots = 0;
        break;
      case '=':
      case ',':
      case ' ': dots = c == ' ' ? dots : 0; break;
      case '.': ++dots; break;
      default: break;
    }
    if (brackets > most_brackets || dots > most_dots) return line;
  }
  return 0;
}

}  // namespace

std::shared_ptr<const TomlDocument> parse_document(std::string text, std::string file, Diagnostics& diagnostics) {
  auto document = std::make_shared<TomlDocument>();
  document->origin.file = std::move(file);
  document->origin.text = std::move(text);
  const Origin& origin = document->origin;
  if (const std::uint32_t line = too_deep(origin.text); line > 0) {
    diagnostics.error_at(origin, {line, 1}, "file.syntax", "values are nested too deeply");
    return nullptr;
  }
  try {
    document->root = converted(toml::parse(std::string_view(origin.text)));
  } catch (const toml::parse_error& failure) {
    diagnostics.error_at(origin, position_of(failure.source()), "file.syntax",
                         "not valid TOML: " + std::string(failure.description()));
    return nullptr;
  }
  record_positions(document->root, "", document->origin.positions);
  return document;
}

std::optional<TomlTable> parse_toml(std::string text, std::string file, Diagnostics& diagnostics) {
  auto document = parse_document(std::move(text), std::move(file), diagnostics);
  if (document == nullptr) return std::nullopt;
  const TomlNode* root = &document->root;
  return TomlTable(std::move(document), root, "", diagnostics);
}

}  // namespace orrery
