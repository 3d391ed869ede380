#pragma once

#include <filesystem>

#include "core/program/program.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/checkpoint/save.hpp"

namespace orrery {

/// Saves the state of a checkpoint in `folder` as the ranks of `program` would
/// (restore), one rank after the other, in memory for one of them.  `manifest` is
/// that of the run under the new plan.  What other checkpoints the folder has stays.
[[nodiscard]] SavedCheckpoint reshard(Checkpoint&, FileSystem&, const std::filesystem::path& folder, const Program&,
                                      Manifest);

}  // namespace orrery
