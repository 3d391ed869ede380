#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// Models with workloads whose sizes leave room for many plans: every family, optimizer and kind of state (masters,
/// moments of every type, factored ones, loss scales), tied tables, experts, prediction modules.
[[nodiscard]] std::vector<PlannedRun> subjects();

/// The subject under a random plan of up to `max_ranks` (8 or more), resolved and checked; empty where the drawn plan
/// does not suit it.
[[nodiscard]] std::optional<PlannedRun> under_plan(const PlannedRun& subject, std::uint64_t seed,
                                                   std::uint32_t max_ranks);

/// The next `count` of those, from `seed` on.
[[nodiscard]] std::vector<PlannedRun> under_plans(const PlannedRun& subject, std::uint64_t seed, std::size_t count,
                                                  std::uint32_t max_ranks);

}  // namespace orrery::test
