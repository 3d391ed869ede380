#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// Folds the experts of a valid run over one of its context and tensor axes, or over both, by turns with `seed`. There
/// are then enough experts for all of these ranks, and routing groups that no cut parts. False, and the run may have
/// changed, where the run has no mixture, no such axis, or positions that do not go around.
[[nodiscard]] bool fold_experts(PlannedRun&, std::uint64_t seed);

}  // namespace orrery::test
