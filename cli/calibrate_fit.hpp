#pragma once

#include <string>

#include "cli/common.hpp"

namespace orrery {

/// `orrery calibrate --from RUNS.csv`: fits the costs of training software to a table of measured runs. It says how
/// large the error is on runs that a fit has not seen, and writes the constants into the folder -o, by default
/// models/software of the data directory. Writes nothing, and returns status_no, where the new constants are worse on
/// such runs than the old ones, or when interrupted.
[[nodiscard]] int fit_to_runs(const CommonFlags&, const std::string& table);

}  // namespace orrery
