#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "validate/collective_curve_file.hpp"

namespace orrery {

/// `orrery validate --collectives [COLLECTIVES.csv]`: measured collectives beside the times of the cost model, errors
/// of each machine by size, and NCCL's choices where they are known. Without a table it uses the shipped one.
[[nodiscard]] int validate_collectives(const CommonFlags&, const std::optional<std::string>& table);

/// Constants of the links that a table names, fitted to its rows. Throws mistakes of the file.
[[nodiscard]] std::vector<CurveFile> fitted_links(const std::string& table);

/// `orrery calibrate --collectives COLLECTIVES.csv`: fits the constants of each kind of link and writes one file for
/// each into the folder -o, by default models/collectives of the data directory.
[[nodiscard]] int fit_to_collectives(const CommonFlags&, const std::string& table);

}  // namespace orrery
