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

/// The checkpoints of a folder, the newest first: "0002-step-12", "0001-step-6".
/// The number counts them; unfinished ones are none.
[[nodiscard]] std::vector<std::string> generations(FileSystem&, const std::filesystem::path& folder);

[[nodiscard]] std::string rank_file_name(std::uint32_t rank);
inline constexpr const char* manifest_name = "manifest";

/// A checkpoint all of whose bytes were checked.
struct Checkpoint {
  std::string name;              ///< of its folder
  std::filesystem::path folder;  ///< with it
  Manifest manifest;
  std::vector<RankFileReader> files;  ///< by rank
  /// Parts by what they are of: file, and number in it.
  struct Place {
    std::size_t file = 0, part = 0;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Place>> places;  ///< (what, tensor)
};

/// Throws Damaged where a file is missing or not what was written; Error where one is of another version or cannot be
/// read.
[[nodiscard]] Checkpoint open_checkpoint(FileSystem&, const std::filesystem::path& folder, const std::string& name);

/// The newest checkpoint that is whole, and what is wrong with those after it.
struct NewestWhole {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> damaged;  ///< a text for each, the newest first
};
[[nodiscard]] NewestWhole newest_whole(FileSystem&, const std::filesystem::path& folder);

}  // namespace orrery
