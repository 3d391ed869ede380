#pragma once

#include <optional>
#include <string>

#include "cli/common.hpp"

namespace orrery {

/// `orrery validate --serving TABLE`: measured points of serving beside predictions, by the shipped costs of engines
/// and by costs that have not seen a point's lengths, or its model. Returns the exit status.
[[nodiscard]] int validate_serving_table(const CommonFlags&, const std::string& table, bool all_rows);

}  // namespace orrery
