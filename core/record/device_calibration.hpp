#pragma once

#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/library.hpp"

namespace orrery {

/// The shipped calibration for devices that nothing was measured on. Its `device` is "any".
inline constexpr const char* datasheet_calibration = "datasheet";

/// Name of the shipped calibration of a device: the one that its file names; without one, that of the shipped device of
/// its name; else "datasheet". Empty for CPU cores without one, and where the data directory lacks "datasheet".
[[nodiscard]] std::string calibration_name(const DeviceSpec&, const Library&);

/// The constants with what the device's file says of it: its multiprocessors, and the rates that matrix products reach.
///
///     e' = e  r / (p  max e)
///
///     e  efficiency of a tile     r  rate reached     p  peak     max e  efficiency of the best tile
///
/// So the best tile reaches r, and the others keep their shares of it.
[[nodiscard]] Calibration on_device(Calibration, const DeviceSpec&);

/// The shipped constants of a device, on the device; nominal ones where it has none.
[[nodiscard]] std::optional<Calibration> shipped_calibration(const DeviceSpec&, const Library&, Diagnostics&);

}  // namespace orrery
