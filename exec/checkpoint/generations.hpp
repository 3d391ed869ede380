#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/checkpoint/manifest.hpp"
#include "exec/checkpoint/rank_file.hpp"

namespace orrery {

/// The checkpoints of a folder, the newest first: "0002-step-12", "0001-step-6". The number counts checkpoints;
/// unfinished ones are left out.
[[nodiscard]] std::vector<std::string> generations(FileSystem&, const std::filesystem::path& folder);

[[nodiscard]] std::string rank_file_name(std::uint32_t rank);
inline constexpr const char* manifest_name = "manifest";

/// A checkpoint all of whose bytes were checked.
struct Checkpoint {
  std::string name;              ///< of its folder
  std::filesystem::path folder;  ///< with it
  Manifest manifest;
  std::vector<RankFileReader> files;  ///< by rank
  /// Where parts are, by what they hold: file, and number in it.
  struct Place {
    std::size_t file = 0, part = 0;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places;  ///< (what, tensor)
};

/// Opens a checkpoint and checks all of it. Throws Damaged where a file is missing or not what was written; Error where
/// one is of another version or cannot be read.
[[nodiscard]] Checkpoint open_checkpoint(FileSystem&, const std::filesystem::path& folder, const std::string& name);

/// The newest checkpoint that is whole, and the damage of the newer ones.
struct NewestWhole {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> damaged;  ///< a text for each, the newest first
};
[[nodiscard]] NewestWhole newest_whole(FileSystem&, const std::filesystem::path& folder);

}  // namespace orrery
