#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/library.hpp"
#include "core/spec/workload.hpp"
#include "validate/software.hpp"

namespace orrery {

/// The constants with which a device's times are computed, and where they came from.
struct CalibrationChoice {
  Calibration calibration;  ///< with the costs of `software`
  std::string origin;       ///< "shipped h100", a path, or "none: datasheet figures"
  Software software;
  std::vector<DeviceBasis> devices;  ///< what each kind of device stands on
};

/// The user's choices about prices.
struct PriceWishes {
  std::optional<std::filesystem::path> calibration;  ///< a file in place of the device's
  std::string software = "auto";                     ///< a training program, "none" or "auto"
  std::filesystem::path own_calibration;             ///< the file that `orrery calibrate` wrote on this machine; may be
                                                     ///< missing
};

/// The wished calibration. Without a wish, it is for cores of this machine (cpu-core) the machine's own, otherwise the
/// shipped one of the device. The costs of the software are included, for products in the given precision.
///
/// Codes: cli.calibration for constants of another device, those of software_of and of the reader
[[nodiscard]] std::optional<CalibrationChoice> choose_calibration(const PriceWishes&, const Library&, const DeviceSpec&,
                                                                  Precision, Diagnostics&);

/// The same for all devices of a cluster: those of other nodes are in Calibration::others, each as shipped unless it is
/// the same device.
[[nodiscard]] std::optional<CalibrationChoice> choose_calibration(const PriceWishes&, const Library&,
                                                                  const ClusterSpec&, Precision, Diagnostics&);

/// Writes into a prediction the constants that priced it, and how large the errors of such predictions are.
void tell_prices(Report&, const CalibrationChoice&);

/// A built-in cluster whose devices are this machine's cores gets their true number; 0: not known.
void adapt_to_cores(ClusterSpec&, unsigned cores);

}  // namespace orrery
