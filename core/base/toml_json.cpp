#include "core/base/toml_json.hpp"

#include <nlohmann/json.hpp>

#include "core/base/toml_document.hpp"

namespace orrery {

namespace {

using nlohmann::ordered_json;

ordered_json json_of(const TomlNode& node) {
  struct Visit {
    ordered_json operator()(const TomlNode::Array& list) const {
      ordered_json out = ordered_json::array();
      for (const TomlNode& n : list) out.push_back(json_of(n));
      return out;
    }
    ordered_json operator()(const TomlNode::Table& table) const {
      ordered_json out = ordered_json::object();
      for (const TomlNode::Entry& e : table) out[e.key] = json_of(e.value);
      return out;
    }
    ordered_json operator()(const TomlNode::Date&) const { return nullptr; }
    ordered_json operator()(const std::string& v) const { return v; }
    ordered_json operator()(std::int64_t v) const { return v; }
    ordered_json operator()(double v) const { return v; }
    ordered_json operator()(bool v) const { return v; }
  };
  return std::visit(Visit{}, node.value);
}

}  // namespace

ordered_json json_of_toml(const std::string& text) {
  Diagnostics diagnostics;
  const auto document = parse_document(text, "", diagnostics);
  ORRERY_ASSERT(document != nullptr, render(diagnostics));
  return json_of(document->root);
}

}  // namespace orrery
