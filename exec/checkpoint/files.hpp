#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orrery {

/// A new file that is written from front to back.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void append(std::span<const std::byte>) = 0;
  /// Returns when the appended bytes are on the disk.
  virtual void sync() = 0;
};

class InputFile {
 public:
  virtual ~InputFile() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Fills `to` from byte `at` on; returns how many bytes there were.
  [[nodiscard]] virtual std::size_t read(std::uint64_t at, std::span<std::byte> to) = 0;
};

/// The part of a file system that checkpoints need, and no more, so that tests can use one that fails, or loses its
/// power, at any call. All functions throw Error with the path and the reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Makes a folder with the folders around it, which are on the disk when it returns; an existing folder is fine.
  virtual void make_folder(const std::filesystem::path&) = 0;
  /// Makes a file, which must not exist yet.
  [[nodiscard]] virtual std::unique_ptr<OutputFile> create(const std::filesystem::path&) = 0;
  /// Opens a file; null when there is no such file.
  [[nodiscard]] virtual std::unique_ptr<InputFile> open(const std::filesystem::path&) = 0;
  /// Renames at once and whole; nothing may have the new name.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Returns when the names in the folder are on the disk.
  virtual void sync_folder(const std::filesystem::path&) = 0;
  /// Removes a folder with everything in it; a missing folder is fine.
  virtual void remove_folder(const std::filesystem::path&) = 0;
  /// The names in a folder, in order; none when there is no such folder.
  [[nodiscard]] virtual std::vector<std::string> list(const std::filesystem::path&) = 0;
};

/// The file system of the operating system.
[[nodiscard]] std::unique_ptr<FileSystem> system_files();

}  // namespace orrery
