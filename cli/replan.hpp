#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "cli/common.hpp"
#include "planner/search.hpp"

namespace orrery {

/// The best plan for the same training on some devices of its cluster, as a search of the plainest plans finds it
/// (planner/search.hpp); empty where none fits, or where `cancel` was set. It starts no threads, so that processes can
/// be made afterwards.
[[nodiscard]] std::optional<FoundPlan> replanned(const PlannedRun&, const ClusterSpec&, const Calibration&,
                                                 const std::atomic<bool>* cancel);

/// The same on at most `most` and at least half as many devices: the number with the shortest step, of equal ones the
/// largest. The result is resolved and lowered for them. Throws Error where no plan fits.
[[nodiscard]] LoadedPlan plan_on_fewer(const PlannedRun&, std::uint32_t most, const CommonFlags&,
                                       const std::atomic<bool>* cancel);

}  // namespace orrery
