#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// The kinds of files that are ours.
enum class FileKind : std::uint8_t {
  model,
  workload,
  device,
  cluster,
  plan,
  calibration,
  hf_config,
  report,
  trace,
  program,
  order,
  unknown
};

[[nodiscard]] std::string_view name_of(FileKind);

/// What a text says that it is, without reading it in full: JSON by its marks,
/// TOML by its tables, a Program and an order of actions by their first line.  A TOML text that does not
/// parse is unknown, and its mistake is in the diagnostics.
[[nodiscard]] FileKind kind_of(const std::string& text, const std::string& file, Diagnostics&);

}  // namespace orrery
