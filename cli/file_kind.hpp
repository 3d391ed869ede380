#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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
  profile,
  program,
  order,
  fabric,
  lesson,
  measured_runs,
  unknown
};

[[nodiscard]] std::string_view name_of(FileKind);
/// "a plan", "an unknown file".
[[nodiscard]] std::string with_article(FileKind);

/// What a text says that it is, without reading it in full: JSON by its marks,
/// TOML by its tables, a Program and an order of actions by their first line, measured runs by their header.  A
/// text that does not parse is unknown, and its mistake is in the diagnostics.
[[nodiscard]] FileKind kind_of(const std::string& text, const std::string& file, Diagnostics&);

/// Refuses a file that says it is of another kind than is wanted here (cli.kind),
/// in one message in place of all that the wanted kind's reader would miss in it.
/// Says nothing of files that cannot be read or do not say what they are: their reader does.
void require_kind(const std::filesystem::path& file, const std::vector<FileKind>& wanted);

}  // namespace orrery
