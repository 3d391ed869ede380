#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace orrery {

/// The disk tier of one rank: a private file in a folder that the user names.
///
/// It is made when the first part is taken and has no name from then on, so that nothing is left behind, however the
/// run ends. Parts are reserved on the disk before they are mapped. Where there is no room, taking a part says so, and
/// no later write can fail.
class TierFile {
 public:
  explicit TierFile(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~TierFile();
  TierFile(const TierFile&) = delete;
  TierFile& operator=(const TierFile&) = delete;

  /// A new part of `bytes`, which exists until the file ends; aligned to a page. Throws Error when the folder takes no
  /// files or the disk is full.
  [[nodiscard]] std::byte* take(std::uint64_t bytes);

 private:
  void open();

  struct Part {
    void* data;
    std::uint64_t bytes;
  };
  std::filesystem::path folder_;
  int file_ = -1;
  std::uint64_t end_ = 0;
  std::vector<Part> parts_;
};

}  // namespace orrery
