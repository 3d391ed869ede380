#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/spec/library.hpp"
#include "core/spec/workload.hpp"
#include "validate/calibration_choice.hpp"

namespace orrery::gui {

/// What a person says of prices and of memory besides the plan, as the command line's options of these names do.  No
/// plan file has them.
struct RunSettings {
  std::string software = "auto";         ///< --software: a training program, "none" or "auto"
  std::optional<Bytes> memory_margin{};  ///< --memory-margin of a search; unset: "auto"
  friend bool operator==(const RunSettings&, const RunSettings&) = default;
};

/// "auto" or a size ("4 GiB"): as --memory-margin takes it, and as it is shown.
[[nodiscard]] std::string margin_text(const std::optional<Bytes>&);
/// Reads it for devices of a cluster.  Empty, with the reason, for what is no size, and from the device's memory on.
/// Code: cli.memory-margin
[[nodiscard]] std::optional<std::optional<Bytes>> read_margin(const std::string& text, const ClusterSpec&,
                                                              Diagnostics&);
/// What a search leaves of every device's memory.
[[nodiscard]] Bytes margin_of(const RunSettings&, const ClusterSpec&, const Calibration&);

/// A value of --software, and why it cannot be chosen; an empty reason: it can.
struct SoftwareOption {
  std::string name, reason;
};
/// "auto", "none" and every training program, for what the calibration prices on the cluster.
[[nodiscard]] std::vector<SoftwareOption> software_options(const Library&, const ClusterSpec&, const Calibration&,
                                                           Precision);
/// What times are priced with, and that it is assumed where nobody chose it: "nemo is assumed, the usual ...".
[[nodiscard]] std::string software_note(const Software&);

}  // namespace orrery::gui
