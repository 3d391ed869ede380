#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/des/simulate.hpp"

namespace orrery {

/// The critical path of a simulation as a person reads it: first its parts and the gains from faster ops and links,
/// then the way from rank to rank. `least_anywhere` is a lower bound of the step for every placement of the ranks,
/// where known. Requires that the path was asked for.
[[nodiscard]] std::string path_text(const Simulation&, std::optional<Seconds> least_anywhere);
/// The same as JSON, with every op.
[[nodiscard]] nlohmann::ordered_json path_json(const Simulation&, std::optional<Seconds> least_anywhere);

}  // namespace orrery
