#pragma once

#include "core/base/units.hpp"
#include "core/program/kernel.hpp"

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

/// Bytes that a kernel really moves, given the size of all views it names.
///
/// Most kernels move their views once: `touched`.  Lookups read only the rows
/// they look up, not the whole table; unfused attention passes its s x s
/// matrices through memory between its products, the softmax and the dropout
/// (times an element of the matrix is read or written beyond the views:
/// forward 3, with dropout 4; backward 5, with dropout 6).
///
/// Source: counted from the kernels' steps: scores written, softmax (read,
/// write), dropout (read, write, mask), product (read); backward likewise.
[[nodiscard]] Bytes memory_traffic(const Kernel&, Bytes touched);

}  // namespace orrery
