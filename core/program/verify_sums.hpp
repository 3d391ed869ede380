#pragma once

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// Operands in which the kernel is linear, and its other operands are no part of the sum: rows of experts.
[[nodiscard]] bool takes_partial(const Kernel&, std::uint32_t i);

/// Kinds that add to what microbatches or parameters before have added.
[[nodiscard]] bool gathers_parts(const Kernel&);

/// Axes over which what the kernel writes to view `i` is a partial sum.
[[nodiscard]] AxisBits new_partial(Regions&, const OpRun&, const Kernel&, std::uint32_t i);

/// What is left to be summed of the sum of `from` over the group, in `to`.
[[nodiscard]] AxisBits reduced(Regions&, const OpRun&, const View& from, const View& to, AxisBits group);

}  // namespace orrery::verifying
