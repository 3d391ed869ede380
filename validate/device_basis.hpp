#pragma once

#include <vector>

#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/cluster_spec.hpp"
#include "validate/cost_file.hpp"
#include "validate/software.hpp"

namespace orrery {

/// What the costs of a device stand on, priced with this calibration and this software: "H100: fitted on 103 runs", or
/// "L40S: datasheet figures, no run measured; so priced, devices that were measured are within 31 % in eight cases of
/// ten".
///
/// Devices with one calibration have the same chip. Runs are counted by calibration, and a device of another name than
/// the calibration's own says whose runs they are.
[[nodiscard]] DeviceBasis device_basis(const DeviceSpec&, const Calibration&, const Software&,
                                       const std::vector<CostFile>&);

}  // namespace orrery
