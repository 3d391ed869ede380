#pragma once

#include <cstdint>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Largest number of ranks in a ring: kernels count places along it in 8 bits.
inline constexpr std::uint32_t ring_limit = 256;

/// The rules of the context axis, a part of check(): the sequence has equal
/// parts, and the attention algorithm, the kernel and the heads suit it.
/// Requires sizes that are in range.
void check_context(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
