#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// Has the ranks that share a run's experts gather all tokens, where there are several; with every third seed experts
/// are folded over other axes before. False where the run cannot have it.
[[nodiscard]] bool gather_tokens(PlannedRun&, std::uint64_t seed);

}  // namespace orrery::test
