#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "validate/measured_run.hpp"

namespace orrery {

/// What the constants of a run may depend on: its device and its training
/// software, each with the families that they belong to.  Nothing else; no
/// model, no size, no source.
struct CostLabels {
  std::vector<std::string_view> devices;     ///< "h100", "hopper"
  std::vector<std::string_view> frameworks;  ///< "nemo", "transformer-engine", and for fp8 the recipe
  friend bool operator==(const CostLabels&, const CostLabels&) = default;
};

/// Of a row on the device whose calibration is called so.
[[nodiscard]] CostLabels labels_of(const MeasuredRun&, std::string_view calibration);

/// Every label there is.
[[nodiscard]] std::vector<std::string_view> known_device_labels();
[[nodiscard]] std::vector<std::string_view> known_framework_labels();

}  // namespace orrery
