#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/program/op.hpp"

namespace orrery {

/// What one thread of a rank is doing. The thread writes it, and it is read when something failed.
struct LaneProgress {
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  Lane lane;                                 ///< of a lane's thread
  std::atomic<std::uint32_t> current{none};  ///< running number in the list
  std::atomic<std::uint32_t> completed{none};
  void reset() {
    current.store(none, std::memory_order_relaxed);
    completed.store(none, std::memory_order_relaxed);
  }
};

/// What a rank is doing.
struct RankProgress {
  std::atomic<std::uint64_t> step{0};  ///< 0: setup
  LaneProgress list;                   ///< of the thread that walks the list; where lanes run side by side that thread
                                       ///< issues
  std::vector<LaneProgress> lanes;     ///< empty where the rank does one op at a time
  explicit RankProgress(std::size_t lane_threads = 0) : lanes(lane_threads) {}
};

}  // namespace orrery
