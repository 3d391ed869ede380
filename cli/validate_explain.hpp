#pragma once

#include <string>
#include <vector>

#include "cli/common.hpp"
#include "core/spec/library.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// Shows where the time of the row with this id goes, and which constants could be behind its error. Returns the exit
/// status: 1 where the row is not predicted.
///
/// Codes: cli.row for an id that the table has not
int validate_explain(const CommonFlags&, const std::vector<MeasuredRun>&, const Library&, const std::string& id);

}  // namespace orrery
