#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec/workload.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// The labels on which the constants of a run may depend: its device and its training software, each with the families
/// that they belong to. They depend on nothing else; on no model, no size, no source.
struct CostLabels {
  std::vector<std::string_view> devices;     ///< "h100", "hopper"
  std::vector<std::string_view> frameworks;  ///< "nemo", "transformer-engine", and for fp8 the recipe
  friend bool operator==(const CostLabels&, const CostLabels&) = default;
};

/// The labels of a row on the device with this calibration.
[[nodiscard]] CostLabels labels_of(const MeasuredRun&, std::string_view calibration);

/// A training program as users name it (`--software`): a generation that shares its kernels and how it launches them.
struct TrainingProgram {
  std::string_view name;
  std::string_view about;                  ///< what ran, where the name does not say it
  std::array<std::string_view, 4> labels;  ///< empty ones at the end
  bool transformer_engine = false;
  bool usual = true;  ///< may stand for a program that is not named; false: an older release, or a submission to
                      ///< a benchmark
  bool model_parallel = true;  ///< its runs may have tensor and pipeline axes; false: they only shard parameters
};
[[nodiscard]] const std::vector<TrainingProgram>& training_programs();
/// The program of that name; null where there is none.
[[nodiscard]] const TrainingProgram* training_program(std::string_view name);
/// The labels of a run with this program on the device with this calibration.
[[nodiscard]] CostLabels labels_of(const TrainingProgram&, std::string_view calibration, Precision);

/// The labels of the device with this calibration, its family first; empty for a device of no family.
[[nodiscard]] std::vector<std::string_view> device_labels(std::string_view calibration);
/// Every label there is.
[[nodiscard]] std::vector<std::string_view> known_device_labels();
[[nodiscard]] std::vector<std::string_view> known_framework_labels();

}  // namespace orrery
