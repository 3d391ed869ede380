#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// One parsed value, in our own types so that the parser's header stays in one
/// source file.  Used by the reader only.
struct TomlNode {
  struct Date {};  ///< dates and times: no file of ours has any
  using Array = std::vector<TomlNode>;
  struct Entry;
  using Table = std::vector<Entry>;  ///< in the order of the file
  std::variant<std::string, std::int64_t, double, bool, Date, Array, Table> value;
  Position position;      ///< of the value
  Position key_position;  ///< of its key, where it has one
};

/// This is a struct because a pair's constructors would ask for a complete node inside the node (clang 14 with
/// libstdc++ 12).
struct TomlNode::Entry {
  std::string key;
  TomlNode value;
};

struct TomlDocument {
  Origin origin;
  TomlNode root;
};

/// Parses TOML; null after a syntax error, which is in `diagnostics`.
[[nodiscard]] std::shared_ptr<const TomlDocument> parse_document(std::string text, std::string file,
                                                                 Diagnostics& diagnostics);

}  // namespace orrery
