#pragma once

#include "core/base/units.hpp"

namespace orrery {

/// Time to move `touched` bytes through device memory.
///
///     T = n / (e b)
///
///     n  bytes read and written     b  memory bandwidth     e  efficiency in (0, 1]
///
/// Source: the memory side of the roofline model (Williams, Waterman and
/// Patterson, "Roofline", CACM 52(4), 2009).
/// Leaves out: caches, and the launch gap.
[[nodiscard]] Seconds memory_time(Bytes touched, Bandwidth bandwidth, double efficiency);

}  // namespace orrery
