#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "exec/checkpoint/directory.hpp"
#include "exec/checkpoint/files.hpp"
#include "exec/checkpoint/manifest.hpp"

namespace orrery {

/// A file of a checkpoint is not what was written; the text says which, where, and what its checksums are.
class Damaged : public Error {
 public:
  using Error::Error;
};

/// The file of one rank (docs/checkpoints.md): a head, then the payload in
/// blocks with a checksum behind each.  The payload is the directory, then the
/// parts' bytes one after the other.  Numbers are little-endian.
inline constexpr std::uint64_t rank_file_head = 48;
inline constexpr std::uint64_t rank_file_block = 65536;

/// Bytes of a file with this much payload.
[[nodiscard]] constexpr std::uint64_t rank_file_bytes(std::uint64_t payload) {
  return rank_file_head + payload + 4 * ((payload + rank_file_block - 1) / rank_file_block);
}

/// Writes a rank's file from front to back.
class RankFileWriter {
 public:
  RankFileWriter(std::unique_ptr<OutputFile>, std::uint32_t rank, std::uint64_t step,
                 const std::vector<StatePart>& parts);
  /// The parts' bytes, in order.
  void append(std::span<const std::byte>);
  /// Called after the last part: returns when all is on the disk.
  [[nodiscard]] RankFileEntry finish();

 private:
  void end_block();

  std::unique_ptr<OutputFile> file_;
  std::uint64_t left_ = 0;  ///< payload not yet appended
  std::uint64_t block_number_ = 0;
  std::uint32_t seed_ = 0;  ///< checksum of the head, under that of every block
  RankFileEntry entry_;
  std::vector<std::byte> block_;
};

/// Reads a rank's file; every byte that it hands out was checked.
class RankFileReader {
 public:
  /// Reads head and directory.  Throws Damaged; Error for another version.
  RankFileReader(std::unique_ptr<InputFile>, std::filesystem::path, std::uint32_t rank, std::uint64_t step,
                 const RankFileEntry&);

  [[nodiscard]] const std::vector<StatePart>& parts() const { return parts_; }
  /// The bytes of part `number` from its byte `at` on.
  void read(std::size_t number, std::uint64_t at, std::span<std::byte> to);
  /// Reads the whole file. Throws Damaged.
  void verify();

 private:
  [[noreturn]] void damaged(const std::string& what) const;
  void read_payload(std::uint64_t at, std::span<std::byte> to);
  /// Block `number` of the payload into block_.
  void load_block(std::uint64_t number);

  std::unique_ptr<InputFile> file_;
  std::filesystem::path path_;
  RankFileEntry entry_;
  std::uint32_t seed_ = 0;
  std::uint64_t payload_ = 0, directory_ = 0;
  std::vector<StatePart> parts_;
  std::vector<std::uint64_t> begins_;  ///< of each part in the payload
  std::vector<std::byte> block_;
  std::uint64_t block_number_ = ~std::uint64_t{0};
  std::uint32_t block_checksum_ = 0;
};

}  // namespace orrery
