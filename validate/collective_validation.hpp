#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/record/calibration.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"
#include "validate/collective_table.hpp"
#include "validate/statistics.hpp"

namespace orrery {

/// Constants of links by the name of their file in models/collectives.
using LinkCurves = std::map<std::string, LinkCurve>;

/// The price of a row's collective, by the cost model of every plan.
struct PredictedCollective {
  Seconds modelled;  ///< by NCCL's own model; for an all-to-all, at the rate that NCCL counts for a link
  Seconds time;
  std::optional<NcclAlgorithm> algorithm;  ///< none for all-to-alls
  std::optional<NcclProtocol> protocol;
};

/// The prediction of a row. It is empty, with the reason, where a cell that it needs is empty or the row's curve is not
/// among `curves`.
struct CollectivePrediction {
  std::optional<PredictedCollective> predicted;
  std::string reason;
};
[[nodiscard]] CollectivePrediction predict(const MeasuredCollective&, const LinkCurves& curves);

struct ValidatedCollective {
  MeasuredCollective row;
  PredictedCollective predicted;
  double error_pct = 0.0;                   ///< of the time
  std::optional<double> low_pct, high_pct;  ///< below 1 MiB: a tenth of the measured times lie below `low`, a tenth
                                            ///< above `high`
  std::optional<bool> chosen_right;         ///< where the row says what NCCL took
};
struct SkippedCollective {
  std::string id, reason;
  friend bool operator==(const SkippedCollective&, const SkippedCollective&) = default;
};

/// Errors of one machine, by size.
struct CollectiveSummary {
  std::string machine;
  std::size_t runs = 0;
  ErrorSummary below;  ///< 1 MiB
  ErrorSummary from;   ///< 1 MiB on
  ErrorSummary large;  ///< 64 MiB on
};
struct CollectiveValidation {
  std::vector<ValidatedCollective> rows;
  std::vector<ValidatedCollective> noisy;  ///< `notes` begin with NOISY: in no summary
  std::vector<SkippedCollective> skipped;
};

[[nodiscard]] CollectiveValidation validate(const std::vector<MeasuredCollective>&, const LinkCurves&);
/// One for each machine, in the order of its first row; the last one is over all, named "all".
[[nodiscard]] std::vector<CollectiveSummary> summaries(const CollectiveValidation&);
/// Number of rows that give NCCL's choice, and number of those for which the model makes the same one.
struct ChoiceCount {
  std::size_t known = 0, right = 0;
};
[[nodiscard]] ChoiceCount choices(const CollectiveValidation&);

/// The smallest size whose error counts among the large ones; below it times are a band.
inline constexpr double large_collective = 64.0 * 1024.0 * 1024.0;
inline constexpr double small_collective = 1024.0 * 1024.0;

}  // namespace orrery
