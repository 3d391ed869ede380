#pragma once

#include <cstdint>
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
  using Table = std::vector<std::pair<std::string, TomlNode>>;  ///< in the order of the file
  std::variant<std::string, std::int64_t, double, bool, Date, Array, Table> value;
  Position position;      ///< of the value
  Position key_position;  ///< of its key, where it has one
};

struct TomlDocument {
  Origin origin;
  TomlNode root;
};

}  // namespace orrery
