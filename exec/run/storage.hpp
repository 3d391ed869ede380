#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// The buffers of one rank: an instance of a declaration becomes memory at its
/// Alloc and is given back at its Free.
///
/// Freed blocks are kept and handed out again, so that a step's timing is not
/// that of page faults; what counts as live is the Program's bytes alone.
/// Blocks are aligned to 64 bytes.
class Storage {
 public:
  /// With `poison` a new instance is filled with ones (a NaN in every floating
  /// type), so that reading before writing shows.
  Storage(const Program&, bool poison);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Throws Error when memory is exhausted.  The instance must not be live.
  void allocate(const Instance&);
  /// The instance must be live.
  void free(const Instance&);
  /// First byte of a live instance.
  [[nodiscard]] std::byte* at(const Instance&) const;
  /// The bytes of an instance; empty when it is not live.
  [[nodiscard]] std::span<std::byte> find(const Instance&) const;

  [[nodiscard]] std::uint64_t live_bytes() const { return live_; }
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_; }
  /// Bytes taken from the system: live blocks, kept blocks and rounding.
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_; }

 private:
  [[nodiscard]] std::size_t slot(const Instance&) const;

  const Program& program_;
  bool poison_;
  std::vector<std::vector<std::byte*>> instances_;                   // by buffer, then layer and microbatch
  std::unordered_map<std::uint64_t, std::vector<std::byte*>> kept_;  // by rounded size
  std::uint64_t live_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace orrery
