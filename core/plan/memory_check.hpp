#pragma once

#include <cstdint>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Offload::states of a plan that leaves them to `resolve`.
inline constexpr std::uint32_t undecided_eighths = ~std::uint32_t{0};

/// The rules of what a plan does to hold less in device memory, a part of
/// check(): recomputed layers by stage, offloading.
/// Requires sizes that are in range.
void check_memory_choices(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
