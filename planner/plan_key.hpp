#pragma once

#include <string>

#include "core/plan/dimension.hpp"

namespace orrery {

/// Bytes that two plans of one run have in common exactly where they decide everything alike.
[[nodiscard]] std::string key_of(const PlannedRun&, Dimensions = dimensions());

}  // namespace orrery
