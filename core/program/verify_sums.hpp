#pragma once

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// Whether the kernel is linear in the operand and its other operands are no part of the sum (rows of experts).
[[nodiscard]] bool takes_partial(const Kernel&, std::uint32_t i);

/// Whether operand `i` is a narrow vector of an adapter, which may be a part of a sum: what the kernel makes of it is a
/// part too (core/program/lower/adapters.hpp).
[[nodiscard]] bool is_narrow_part(const Program&, const OpRun&, const Kernel&, std::uint32_t i);

/// Kinds that add to the contributions of earlier microbatches or parameters.
[[nodiscard]] bool gathers_parts(const Kernel&);

/// Axes over which what the kernel writes to view `i` is a partial sum.
[[nodiscard]] AxisBits new_partial(Regions&, const OpRun&, const Kernel&, std::uint32_t i);

/// The axes over which `to` is still partial after `from` was summed over the group.
[[nodiscard]] AxisBits reduced(Regions&, const OpRun&, const View& from, const View& to, AxisBits group);

}  // namespace orrery::verifying
