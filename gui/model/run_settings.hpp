#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/spec/library.hpp"
#include "core/spec/workload.hpp"
#include "validate/calibration_choice.hpp"

namespace orrery::gui {

/// The user's settings of prices and memory besides the plan, named like the command line's options. No plan file has
/// them.
struct RunSettings {
  std::string software = "auto";         ///< --software: a training program, "none" or "auto"
  std::optional<Bytes> memory_margin{};  ///< --memory-margin of a search; unset: "auto"
  friend bool operator==(const RunSettings&, const RunSettings&) = default;
};

/// The text "auto" or a size ("4 GiB"), as --memory-margin takes it and as it is shown.
[[nodiscard]] std::string margin_text(const std::optional<Bytes>&);
/// Reads the margin for devices of a cluster. Empty, with the reason, for a text that is no size, and for sizes from
/// the device's memory on. Code: cli.memory-margin
[[nodiscard]] std::optional<std::optional<Bytes>> read_margin(const std::string& text, const ClusterSpec&,
                                                              Diagnostics&);
/// Memory that a search leaves free on every device.
[[nodiscard]] Bytes margin_of(const RunSettings&, const ClusterSpec&, const Calibration&);

/// A value of --software, and the reason why it cannot be chosen; empty where it can.
struct SoftwareOption {
  std::string name, reason;
};
/// The values "auto", "none" and every training program, for the devices that the calibration prices on the cluster.
[[nodiscard]] std::vector<SoftwareOption> software_options(const Library&, const ClusterSpec&, const Calibration&,
                                                           Precision);
/// The software whose costs are in the times; says that it is assumed where nobody chose it: "nemo is assumed, the
/// usual ...".
[[nodiscard]] std::string software_note(const Software&);

}  // namespace orrery::gui
