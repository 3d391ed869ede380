#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/plan/plan.hpp"
#include "planner/placement.hpp"
#include "sim/des/fabric_traffic.hpp"

namespace orrery {

/// A plan as given, in the placement found and in a bad order of axes, side by side: step time, busiest link, how far
/// the bytes of each group go, and what nodes send each other. Then it says how far the search can be trusted.
[[nodiscard]] std::string placement_text(const FabricRoutes&, std::uint64_t ranks, const PlacementSearch&);
/// The same for programs, with all three plan files.
[[nodiscard]] nlohmann::ordered_json placement_json(const FabricRoutes&, const PlannedRun&, const PlacementSearch&);

}  // namespace orrery
