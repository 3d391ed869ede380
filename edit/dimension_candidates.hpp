#pragma once

#include <cstdint>
#include <vector>

#include "edit/dimension.hpp"

// Which values of a dimension are looked at.

namespace orrery {

/// Values worth trying; those that are legal are among them.
[[nodiscard]] std::vector<std::uint64_t> candidates(const PlannedRun&, Dimension);

/// Sequences of a step that one rank trains.
[[nodiscard]] std::uint64_t sequences_of_rank(const PlannedRun&);

}  // namespace orrery
