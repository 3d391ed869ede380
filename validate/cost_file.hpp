#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/software_costs.hpp"
#include "validate/cost_labels.hpp"

namespace orrery {

/// One fitted constant: its value came from runs, held near `prior`.
struct FittedCost {
  SoftwareCost cost = SoftwareCost::gemm;
  double value = 1.0;
  double prior = 1.0;        ///< what would be taken without any run
  double spread = 0.0;       ///< spread of the logarithm of the value around that of the prior; 0: not fitted
  double uncertainty = 0.0;  ///< standard error of the logarithm, after the fit
  friend bool operator==(const FittedCost&, const FittedCost&) = default;
};

/// Errors of a key's runs, each predicted without the runs of its own architecture and size.
struct HeldOutErrors {
  std::size_t runs = 0;
  double mape_pct = 0.0, median_pct = 0.0, bias_pct = 0.0;
  /// Ratios of measured to predicted time: one run more of the same kind lies below `low` with a chance of at most a
  /// tenth, and above `high` with one of at most a tenth (fit.cpp, conformal).
  double low = 1.0, high = 1.0;
  std::string group = {};  ///< the file of the key, where errors_of chose it
  friend bool operator==(const HeldOutErrors&, const HeldOutErrors&) = default;
};

/// The constants of one key: a device or its family, a generation of training software, both, or neither. A run takes
/// those of every key that matches it.
struct CostFile {
  std::string name;       ///< of the file
  std::string device;     ///< a device label; empty: all
  std::string framework;  ///< a framework label; empty: all
  std::string source;     ///< what the priors stand on
  std::vector<FittedCost> costs;
  HeldOutErrors errors;
  HeldOutErrors dense, mixtures;  ///< the same of the runs of each kind of model alone
  /// Errors of each run predicted without itself alone: of a model whose architecture and size the fit has seen.
  HeldOutErrors seen, seen_dense, seen_mixtures;
  /// In the file for all: architectures and sizes that the fit has seen (PreparedRun::architecture).
  std::vector<std::string> architectures;
  /// For a family of devices: errors of the runs of all programs, priced as the family's usual program (usual_program)
  /// with constants fitted to all. They tell the error of a prediction whose program is not named.
  HeldOutErrors unnamed;
  /// In the file for all: errors of all runs, had nothing been measured on their devices; with the costs of no program,
  /// and with those of their own. They tell the error of a prediction for such a device.
  HeldOutErrors unmeasured, unmeasured_named;
  /// In the file of a family: its runs by calibration, "h100".
  std::map<std::string, std::size_t> devices;
  std::vector<std::string> runs;  ///< ids of the rows that the values were fitted to
  friend bool operator==(const CostFile&, const CostFile&) = default;
};

/// Reads one file, or all files of a folder (models/software) in order of their names.
///
/// Codes: costs.key, costs.duplicate, and file.* of the reader
[[nodiscard]] std::optional<CostFile> parse_costs(std::string text, std::string file, Diagnostics&);
[[nodiscard]] std::optional<std::vector<CostFile>> read_costs(const std::filesystem::path& folder, Diagnostics&);
[[nodiscard]] std::string costs_text(const CostFile&);

[[nodiscard]] bool applies(const CostFile&, const CostLabels&);
/// The costs of a run: factors multiplied and terms added over every key that matches it.
[[nodiscard]] SoftwareCosts costs_of(const std::vector<CostFile>&, const CostLabels&);
/// What is known of a model whose prediction's errors are asked for.
struct ModelKnown {
  bool mixture = false;
  std::string architecture;
};
/// The errors of the matching key with the fewest runs, at least seven; otherwise those of the key for all. Where the
/// kind of model is known, those of its runs count as a narrower key, and where the fit has seen its architecture and
/// size, the errors are those of such models.
[[nodiscard]] HeldOutErrors errors_of(const std::vector<CostFile>&, const CostLabels&,
                                      const std::optional<ModelKnown>& = std::nullopt);

}  // namespace orrery
