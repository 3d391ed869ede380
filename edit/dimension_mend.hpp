#pragma once

#include <string>

#include "edit/dimension.hpp"

// How a run that was turned becomes one that can be.

namespace orrery {

/// Makes the mesh cover the cluster and the run valid: as it stands, with more or less data, and where the mesh was
/// turned (or devices, model or cluster, as Dimension::devices) with the nearest mesh.  What was asked for stays.
/// False where nothing near is valid; `reason` has the first rule that the run as it stood breaks.
[[nodiscard]] bool settle(const PlannedRun& before, PlannedRun& run, Dimension fixed, std::string& reason);

}  // namespace orrery
