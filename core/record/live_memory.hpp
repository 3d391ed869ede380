#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// What an op does to live bytes of device memory.
struct LiveChange {
  Role role{};
  std::int64_t bytes = 0;  ///< below 0 where they are freed
};
/// Nothing where the op neither allocates nor frees device memory.
[[nodiscard]] std::optional<LiveChange> live_change(const Program&, const Op&);

/// Live bytes of a Program in device memory, from its Alloc and Free ops alone.
///
/// Memory does not depend on time: buffers begin and end in issue order, so a
/// rank's peak is a maximum prefix sum over setup and step.  Each block is
/// summed once; slots are then walked, never ops.
class LiveMemory {
 public:
  /// The shares of StageMemory, in its order.
  static constexpr std::size_t share_count = 5;
  using Shares = std::array<std::int64_t, share_count>;

  /// Sums the blocks of `program`.  May be called again: keeps its storage.
  void read(const Program& program);

  /// Peak of one class of ranks over setup and step, and what was live at the
  /// first instant that reached it.  `stage` is filled from the class's
  /// pipeline coordinate.  Requires read(program) before.
  [[nodiscard]] StageMemory peak(const Program& program, std::uint32_t rank_class) const;

  /// The share of StageMemory to which a buffer counts.
  [[nodiscard]] static std::size_t share_of(Role role);

 private:
  /// What one run of a block does to live bytes.
  struct BlockBytes {
    std::int64_t net = 0;
    std::int64_t highest = 0;  ///< largest prefix sum, 0 for the empty prefix
    Shares net_by_share{};
    Shares at_highest{};  ///< prefix by share where `highest` is first reached
  };
  std::vector<BlockBytes> blocks_;
};

}  // namespace orrery
