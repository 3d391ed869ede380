#pragma once

#include <filesystem>

#include "core/program/program.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/checkpoint/save.hpp"

namespace orrery {

/// Saves the state of a checkpoint in `folder` as the ranks of `program` would (restore), one rank after the other, so
/// that memory for one of them is enough. `manifest` is the manifest of the run under the new plan. Other checkpoints
/// in the folder stay.
[[nodiscard]] SavedCheckpoint reshard(Checkpoint&, FileSystem&, const std::filesystem::path& folder, const Program&,
                                      Manifest);

}  // namespace orrery
