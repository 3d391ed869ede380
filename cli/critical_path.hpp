#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/des/simulate.hpp"

namespace orrery {

/// The critical path of a simulation as a person reads it: what it is made of and what faster ops and links would
/// bring, then how it goes from rank to rank.  `least_anywhere`: a step that no placement of the ranks undercuts, where
/// known. Requires that the path was asked for.
[[nodiscard]] std::string path_text(const Simulation&, std::optional<Seconds> least_anywhere);
/// The same with every op.
[[nodiscard]] nlohmann::ordered_json path_json(const Simulation&, std::optional<Seconds> least_anywhere);

}  // namespace orrery
