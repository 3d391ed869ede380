#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/space.hpp"

namespace orrery {

/// The space, mesh by mesh, with the values of every dimension.
[[nodiscard]] nlohmann::ordered_json space_json(const Space&);

}  // namespace orrery
