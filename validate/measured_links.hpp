#pragma once

#include <string>
#include <vector>

#include "core/record/calibration.hpp"
#include "validate/collective_curve_file.hpp"

namespace orrery {

/// Constants measured on one GPU, completed: what joins GPUs and what a process holds are those of the shipped
/// calibration of its kind, and links called "node" and "network" are those fitted to collectives measured here, with
/// what was fitted in the source.
///
/// Links require constants of NCCL in the shipped calibration.
[[nodiscard]] Calibration with_links(Calibration measured, const Calibration& shipped,
                                     const std::vector<CurveFile>& links, const std::string& table);

}  // namespace orrery
