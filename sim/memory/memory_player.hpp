#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/memory/caching_allocator.hpp"

namespace orrery {

/// PyTorch's allocator keeps the blocks of each CUDA stream apart: memory that one stream has given back serves no
/// other.
enum class StreamPool : std::uint8_t { compute, gathers, reductions };
inline constexpr std::size_t stream_pools = 3;

/// Device memory of a process while tensors come and go: an allocator for each stream, and the most that each has held.
class MemoryPlayer {
 public:
  explicit MemoryPlayer(const AllocatorRules& rules)
      : pools_{CachingAllocator(rules), CachingAllocator(rules), CachingAllocator(rules)} {}

  /// Allocates or frees a tensor, under a name that no other live tensor has.
  void operator()(bool alloc, std::uint64_t name, std::uint64_t bytes, StreamPool pool = StreamPool::compute) {
    CachingAllocator& allocator = pools_[static_cast<std::size_t>(pool)];
    const std::uint64_t before = allocator.allocated();
    if (alloc) {
      live_ += bytes;
      most_live_ = std::max(most_live_, live_);
      fits_ = allocator.allocate(name, bytes) && fits_;
      allocated_ += allocator.allocated() - before;
      most_allocated_ = std::max(most_allocated_, allocated_);
    } else {
      live_ -= bytes;
      allocator.free(name);
      allocated_ -= before - allocator.allocated();
    }
  }

  /// Bytes that tensors ask for, now and at most.
  [[nodiscard]] std::uint64_t live() const { return live_; }
  [[nodiscard]] std::uint64_t most_live() const { return most_live_; }
  [[nodiscard]] std::uint64_t most_allocated() const { return most_allocated_; }
  /// The peaks of the pools together, each at its own time.
  [[nodiscard]] std::uint64_t most_reserved() const;
  /// How often segments were given back, in the part that was played and in the parts that were skipped.
  [[nodiscard]] std::uint64_t retries() const;
  void add_retries(std::uint64_t more) { unplayed_retries_ += more; }
  /// Whether everything had room.
  [[nodiscard]] bool fits() const { return fits_; }

  /// Appends the state that decides how the allocators go on, with microbatches counted from number `first`.
  void write_state(std::uint64_t first, std::vector<std::uint64_t>& out) const;
  /// A number that is the same for equal states, and mostly differs for different ones.
  [[nodiscard]] std::uint64_t sign(std::uint64_t first) const;
  /// Renames every tensor of a microbatch to the one of `later` microbatches later.
  void move_on(std::uint64_t later);

 private:
  std::array<CachingAllocator, stream_pools> pools_;
  std::uint64_t live_ = 0, most_live_ = 0;
  std::uint64_t allocated_ = 0, most_allocated_ = 0;
  std::uint64_t unplayed_retries_ = 0;
  bool fits_ = true;
};

}  // namespace orrery
