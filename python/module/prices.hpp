#pragma once

#include <memory>

#include "cli/common.hpp"

namespace orrery::python {

/// What calibration_of (cli/common.hpp) chooses for a checked run: files are read once for each cluster, software and
/// precision. Files that a user may change (a calibration of his own) are read each time.
[[nodiscard]] std::shared_ptr<const CalibrationChoice> prices_of(const PlannedRun&, const CommonFlags&);

}  // namespace orrery::python
