#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/des/simulate.hpp"

namespace orrery {

/// The critical path of a simulation as a person reads it: what it is made of and what faster ops would bring, then how
/// it goes from rank to rank.  Requires that it was asked for.
[[nodiscard]] std::string path_text(const Simulation&);
/// The same with every op.
[[nodiscard]] nlohmann::ordered_json path_json(const Simulation&);

}  // namespace orrery
