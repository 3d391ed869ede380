#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sweep/swept_point.hpp"

namespace orrery {

/// Computes points side by side. `compute` is called from `threads` threads and returns nothing where it was told to
/// stop; `done` is called from one thread at a time, with points in the order in which they end. Once `cancelled` is
/// set no other point begins. The first exception ends all and is thrown.
void compute_points(const std::vector<std::uint64_t>& numbers, unsigned threads,
                    const std::function<std::optional<SweptPoint>(std::uint64_t)>& compute,
                    const std::function<void(const SweptPoint&)>& done, const std::atomic<bool>& cancelled);

}  // namespace orrery
