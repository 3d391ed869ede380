#pragma once

#include <optional>
#include <string>

#include "cli/common.hpp"

namespace orrery {

/// What `orrery import` is asked about a launch file.
struct LaunchImport {
  std::string file;
  std::string format;  ///< of a LaunchFormat, or "auto"
  std::optional<std::string> cluster;
  bool verbose = false;  ///< also lists keys without effect
};

/// Turns a launch file into a plan, and says what became of its keys. A model that the file describes is written beside
/// the plan. Status 1 where a plan cannot say all of the file, unless --nearest.
[[nodiscard]] int import_launch(const LaunchImport&, const CommonFlags&);

}  // namespace orrery
