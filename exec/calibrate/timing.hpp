#pragma once

#include <cstdint>
#include <functional>

#include "core/base/units.hpp"

namespace orrery {

/// The time of repeated runs of the same work.
struct MeasuredTime {
  Seconds typical;      ///< median of the samples
  double spread = 0.0;  ///< (upper - lower quartile) / median
};

/// How long one point is measured.
struct TimingEffort {
  Seconds sample = Seconds::of(150e-6);  ///< least duration of one sample; short work is repeated inside
  std::uint32_t samples = 7;
  Seconds most = Seconds::of(30e-3);  ///< a point takes at most this long, but always one sample after a warm-up
};

/// Runs `work(i)`, i = 0, 1, 2, ..., on this thread and times it by the thread's
/// own clock, which stands still while other programs have the core.  Requires
/// at least one sample.
[[nodiscard]] MeasuredTime time_work(const std::function<void(std::uint64_t)>& work, const TimingEffort& = {});

}  // namespace orrery
