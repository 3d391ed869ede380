#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// What a rank's file must be: its length and the checksum over all of it.
struct RankFileEntry {
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
  friend bool operator==(const RankFileEntry&, const RankFileEntry&) = default;
};

/// Describes a checkpoint. It is written when all rank files are there.
///
/// Random numbers and data are keyed by (seed, step), so the step is all of their state. The texts are files of their
/// kinds (docs/plan-file.md).
struct Manifest {
  std::uint64_t step = 0;  ///< step of the data: steps begun so far, with skipped updates
  std::string model, workload, plan;
  std::vector<RankFileEntry> ranks;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// The manifest of a checkpoint after `step` steps of this run, without rank files yet.
[[nodiscard]] Manifest manifest_of(const PlannedRun&, std::uint64_t step);

/// JSON, and a last line "crc32 0123abcd" with the checksum of all before it.
[[nodiscard]] std::string write_manifest(const Manifest&);

/// Reads it back. Codes: checkpoint.damaged, where the text is not what was written; checkpoint.version;
/// checkpoint.file. A model or workload that its reader refuses is the reader's mistake.
[[nodiscard]] std::optional<Manifest> read_manifest(std::string_view text, const std::string& file, Diagnostics&);

/// The model, or the workload, of a manifest that was read.
[[nodiscard]] ModelSpec model_of(const Manifest&);
[[nodiscard]] Workload workload_of(const Manifest&);

/// Reports why a run cannot go on from the checkpoint: another model (checkpoint.model), or states of another kind
/// (checkpoint.states: precision, optimizer, moments). `file` is the manifest.
void check_resume(const Manifest&, const PlannedRun&, const std::string& file, Diagnostics&);

/// Lines of the workload that have changed: "learning_rate = 0.001 (it was 0.01)".
[[nodiscard]] std::vector<std::string> workload_changes(const Manifest&, const PlannedRun&);

}  // namespace orrery
