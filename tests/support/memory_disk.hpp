#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/files.hpp"

namespace orrery::test {

/// Thrown where the machine stops. It is no Error, because no code may catch it and clean up.
struct PowerCut {};

/// A file system in memory that knows what is on the disk: contents after sync,
/// names after sync_folder.  It can stop the machine, or be full, at any call.
class MemoryDisk final : public FileSystem {
 public:
  /// What a stopped machine finds when it starts again.
  enum class Survives : std::uint8_t {
    all,    ///< only the program died
    names,  ///< names that were never synced, but only synced contents
    what_was_synced
  };
  enum class Failure : std::uint8_t { power, full };

  void make_folder(const std::filesystem::path&) override;
  std::unique_ptr<OutputFile> create(const std::filesystem::path&) override;
  std::unique_ptr<InputFile> open(const std::filesystem::path&) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void sync_folder(const std::filesystem::path&) override;
  void remove_folder(const std::filesystem::path&) override;
  std::vector<std::string> list(const std::filesystem::path&) override;

  /// Makes call number `at` from now on (0: the next that writes) fail. A power cut comes in the middle of it, and all
  /// later calls fail; a full disk fails every call that takes room until `clear`.
  void fail(Failure, std::uint64_t at);
  void clear() { failure_.reset(); }
  /// Number of calls so far that change something.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// Starts the machine again.
  void restart(Survives);
  /// The bytes of a file, to damage them.
  [[nodiscard]] std::vector<std::byte>& bytes(const std::filesystem::path&);
  /// Takes a file away.
  void lose(const std::filesystem::path&);

  struct Node {
    bool folder = false;
    std::vector<std::byte> now, kept;
    std::map<std::string, std::shared_ptr<Node>> names, kept_names;
  };

 private:
  friend class MemoryOutput;
  /// Counts a call; returns whether it must stop in the middle of its work.
  [[nodiscard]] bool stops(bool takes_room);
  [[nodiscard]] std::shared_ptr<Node> find(const std::filesystem::path&) const;
  void remove(Node&);

  std::shared_ptr<Node> root_ = [] {
    auto root = std::make_shared<Node>();
    root->folder = true;
    return root;
  }();
  std::uint64_t calls_ = 0;
  std::optional<Failure> failure_;
  std::uint64_t fails_at_ = 0;
};

}  // namespace orrery::test
