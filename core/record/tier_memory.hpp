#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/totals.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// Peak bytes of each memory tier.
using TierBytes = std::array<std::uint64_t, tier_count>;

/// Peaks of each class of ranks over setup and step: the largest prefix sums of Alloc and Free in issue order. Walks
/// slots, not ops.
[[nodiscard]] std::vector<TierBytes> tier_peaks(const Program&);

/// Fills the report's host and disk figures. These are the peaks of the fullest node as the sum over its ranks
/// (placement: rank to device; empty: rank i on device i), the cluster's capacities where it has any, and `fits`,
/// together with the earlier judgement of the device. Does nothing where the Program has device memory alone.
void add_tier_memory(Report&, const PlannedRun&, const Program&);

}  // namespace orrery
