#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// The kinds of Orrery's own files.
enum class FileKind : std::uint8_t {
  model,
  workload,
  device,
  cluster,
  reliability,
  power,
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
  sweep,
  points,   ///< of a sweep
  network,  ///< another program's description of a network, which `import` reads
  launch,   ///< of another training program (framework/)
  unknown
};

[[nodiscard]] std::string_view name_of(FileKind);
/// "a plan", "an unknown file".
[[nodiscard]] std::string with_article(FileKind);

/// The kind that a text claims to be, found without reading all of it. JSON is recognised by its marks, TOML by its
/// tables, a Program and an order of actions by their first line, measured runs by their header. A text that does not
/// parse is unknown, and its mistake is in the diagnostics.
[[nodiscard]] FileKind kind_of(const std::string& text, const std::string& file, Diagnostics&);

/// Refuses a file of another kind than is wanted here (cli.kind), in one message instead of everything that the wanted
/// kind's reader would miss in it. It ignores files that cannot be read or do not say what they are, because their
/// reader reports that.
void require_kind(const std::filesystem::path& file, const std::vector<FileKind>& wanted);

}  // namespace orrery
