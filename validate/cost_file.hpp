#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/software_costs.hpp"
#include "validate/cost_labels.hpp"

namespace orrery {

/// One constant as fitted: its value came from runs, held near `prior`.
struct FittedCost {
  SoftwareCost cost = SoftwareCost::gemm;
  double value = 1.0;
  double prior = 1.0;        ///< what would be taken without any run
  double spread = 0.0;       ///< of the logarithm of the value around that of the prior; 0: not fitted
  double uncertainty = 0.0;  ///< standard error of the logarithm, after the fit
  friend bool operator==(const FittedCost&, const FittedCost&) = default;
};

/// How far off the runs of a key are, each predicted without those of its own architecture and size.
struct HeldOutErrors {
  std::size_t runs = 0;
  double mape_pct = 0.0, median_pct = 0.0, bias_pct = 0.0;
  double low = 1.0, high = 1.0;  ///< of measured over predicted time: a tenth lie below, a tenth above
  friend bool operator==(const HeldOutErrors&, const HeldOutErrors&) = default;
};

/// The constants of one key: a device or its family, a generation of training
/// software, both, or neither.  A run takes those of every key that fits it.
struct CostFile {
  std::string name;       ///< of the file
  std::string device;     ///< a device label; empty: all
  std::string framework;  ///< a framework label; empty: all
  std::string source;     ///< what the priors stand on
  std::vector<FittedCost> costs;
  HeldOutErrors errors;
  /// Of a family of devices: of the runs of all programs, priced as the usual one of the family (usual_program) with
  /// constants fitted to all: how far off a prediction is whose program is not named.
  HeldOutErrors unnamed;
  std::vector<std::string> runs;  ///< ids of the rows that the values were fitted to
  friend bool operator==(const CostFile&, const CostFile&) = default;
};

/// Reads one file, or all of a folder (models/software) in order of their names.
///
/// Codes: costs.key, costs.duplicate, and file.* of the reader
[[nodiscard]] std::optional<CostFile> parse_costs(std::string text, std::string file, Diagnostics&);
[[nodiscard]] std::optional<std::vector<CostFile>> read_costs(const std::filesystem::path& folder, Diagnostics&);
[[nodiscard]] std::string costs_text(const CostFile&);

[[nodiscard]] bool applies(const CostFile&, const CostLabels&);
/// Factors multiplied and terms added over every key that fits.
[[nodiscard]] SoftwareCosts costs_of(const std::vector<CostFile>&, const CostLabels&);
/// The errors of the key with the fewest runs, at least 20, that fits; those of the key for all, else.
[[nodiscard]] HeldOutErrors errors_of(const std::vector<CostFile>&, const CostLabels&);

}  // namespace orrery
