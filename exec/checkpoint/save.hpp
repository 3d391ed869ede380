#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "exec/checkpoint/files.hpp"
#include "exec/checkpoint/manifest.hpp"
#include "exec/checkpoint/state_parts.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// Saving goes in three steps, so that ranks in separate processes can each write their own file. One process begins,
/// every rank writes, and when all have written one process ends. Until the last rename a checkpoint has a name that is
/// never read, so a crash at any time leaves the old one, or the new one, whole.

/// Makes the folder of a new checkpoint, after it has removed what a crash left behind. Its number is one above the
/// newest. Until it is finished its name is the result with ".partial" behind it.
[[nodiscard]] std::string begin_checkpoint(FileSystem&, const std::filesystem::path& folder, std::uint64_t step);

/// Writes the file of one rank.
[[nodiscard]] RankFileEntry write_rank_file(FileSystem&, const std::filesystem::path& folder, const std::string& name,
                                            std::uint64_t step, Rank, const std::vector<HeldPart>&, const RunBuffers&);

/// Writes the manifest, with all ranks' entries, and gives the checkpoint its final name. Then removes all others but
/// those in `keep`.
void finish_checkpoint(FileSystem&, const std::filesystem::path& folder, const std::string& name, const Manifest&,
                       const std::vector<std::string>& keep);

/// What was saved.
struct SavedCheckpoint {
  std::string name;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;  ///< of the rank files
};

/// Takes all three steps, for ranks in one process. `previous` is the checkpoint to keep beside it. When that fails,
/// the unfinished checkpoint is removed, and Error says which ones are kept.
[[nodiscard]] SavedCheckpoint save_checkpoint(FileSystem&, const std::filesystem::path& folder, const Program&,
                                              const RunBuffers&, Manifest, const std::optional<std::string>& previous);

}  // namespace orrery
