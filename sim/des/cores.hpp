#pragma once

#include <cstdint>

#include "sim/des/event_queue.hpp"

namespace orrery {

/// Compute ops of one rank each, on the cores of one node.
///
/// With no more ops than cores each takes its own time.  With more, all advance
/// equally fast: n ops on c cores at c / n of the speed alone (processor
/// sharing, the limit of short time slices).  Progress is counted in whole
/// picoseconds of an op alone; a change of n drops less than one.
class Cores {
 public:
  /// `cores` 0: as many as there are ops.
  explicit Cores(std::int64_t cores = 0) : cores_(cores) {}

  void start(Picoseconds now, Picoseconds alone, std::uint64_t op) {
    advance(now);
    targets_.push(progress_ + alone, op);
  }
  [[nodiscard]] bool idle() const { return targets_.empty(); }
  /// When the next op ends if none starts before.  Requires ops under way.
  [[nodiscard]] Picoseconds next_end() const {
    const Picoseconds left = targets_.next_time() - progress_;
    const auto n = static_cast<Picoseconds>(targets_.size());
    if (n <= cores_ || cores_ == 0) return time_ + left;
    // left n / cores, rounded up; whole and rest apart, so that nothing overflows.
    return time_ + left / cores_ * n + (left % cores_ * n + cores_ - 1) / cores_;
  }
  /// The op that ends at next_end().
  std::uint64_t finish() {
    time_ = next_end();
    progress_ = targets_.next_time();
    return targets_.pop();
  }

 private:
  void advance(Picoseconds now) {
    const Picoseconds passed = now - time_;
    const auto n = static_cast<Picoseconds>(targets_.size());
    progress_ += n <= cores_ || cores_ == 0 ? passed : passed / n * cores_ + passed % n * cores_ / n;
    time_ = now;
  }

  std::int64_t cores_;
  Picoseconds time_ = 0;      ///< up to which progress is counted
  Picoseconds progress_ = 0;  ///< of an op that had run since the beginning
  EventQueue<std::uint64_t> targets_;
};

}  // namespace orrery
