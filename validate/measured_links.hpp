#pragma once

#include <string>
#include <vector>

#include "core/record/calibration.hpp"
#include "validate/collective_curve_file.hpp"

namespace orrery {

/// Constants measured on one GPU, completed with others. Those of links between GPUs and of a process's memory come
/// from the shipped calibration of its kind. Links called "node" and "network" come from fits to collectives measured
/// here; the source says what was fitted.
///
/// Links require constants of NCCL in the shipped calibration.
[[nodiscard]] Calibration with_links(Calibration measured, const Calibration& shipped,
                                     const std::vector<CurveFile>& links, const std::string& table);

}  // namespace orrery
