#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

// The memory that all ranks of a communicator of the NCCL stand-in map: which ranks are there, how it was split, and
// bytes on their way.

namespace orrery::test::nccl_stand_in {

enum class Kind : std::uint32_t { message, all_reduce, reduce_scatter, all_gather, broadcast, reduce };

/// Stands before the bytes of a message.
struct Header {
  Kind kind = Kind::message;
  std::uint32_t number = 0;  ///< of the collective on its communicator
  std::uint64_t bytes = 0;
  std::int32_t type = 0, operation = 0, root = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

/// Bytes on their way from one rank to another.
struct Pipe {
  static constexpr std::uint64_t capacity = 8192;
  std::atomic<std::uint64_t> written{0}, taken{0};
  std::atomic<std::uint32_t> wanted_by_sender{0}, wanted_by_receiver{0};
  std::byte bytes[capacity];

  std::uint64_t put(const std::byte* from, std::uint64_t n) {
    const std::uint64_t at = written.load(std::memory_order_relaxed);
    n = std::min(n, capacity - (at - taken.load(std::memory_order_acquire)));
    for (std::uint64_t i = 0; i < n; ++i) bytes[(at + i) % capacity] = from[i];
    written.store(at + n, std::memory_order_release);
    return n;
  }
  std::uint64_t take(std::byte* to, std::uint64_t n) {
    const std::uint64_t at = taken.load(std::memory_order_relaxed);
    n = std::min(n, written.load(std::memory_order_acquire) - at);
    for (std::uint64_t i = 0; i < n; ++i) to[i] = bytes[(at + i) % capacity];
    taken.store(at + n, std::memory_order_release);
    return n;
  }
};

struct Choice {
  std::atomic<int> made{0};
  int color = 0, key = 0;
};

constexpr int most_ranks = 16, most_splits = 64;

struct Shared {
  std::atomic<int> arrived{0};
  Choice splits[most_splits][most_ranks];
  Pipe pipes[most_ranks][most_ranks];
};

/// The shared memory of a communicator by its name; zeros when new.
[[nodiscard]] Shared* map_shared(const std::string& name);

}  // namespace orrery::test::nccl_stand_in
