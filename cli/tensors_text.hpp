#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sim/memory/live_tensors.hpp"

namespace orrery {

/// The tensors that each pipeline stage holds at the instant at which it holds most, largest first.
[[nodiscard]] std::string tensors_text(const std::vector<PeakTensors>&);
/// The same as JSON: for each stage its peak, and for all tensors name, shape, type, role, owner, count and bytes.
[[nodiscard]] nlohmann::ordered_json tensors_json(const std::vector<PeakTensors>&);

}  // namespace orrery
