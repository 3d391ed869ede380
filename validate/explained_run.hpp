#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/record/report.hpp"
#include "core/spec/library.hpp"
#include "validate/cost_file.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// What one fitted constant could do about a run's error.
struct ConstantAtRun {
  std::string key;  ///< name of its file
  SoftwareCost cost = SoftwareCost::gemm;
  double value = 1.0, prior = 1.0;
  std::size_t runs = 0;     ///< that the value was fitted to
  double elasticity = 0.0;  ///< percent of step time for one percent of the value
  double doubt_pct = 0.0;   ///< percent of step time for one standard error of the value
  /// Value with which the prediction would be the measurement, by the elasticity; unset: nothing measured, or it would
  /// be more than tenfold away.
  std::optional<double> would_be;
};

/// Where a row's time goes, and which constants could be behind its error.
struct ExplainedRun {
  std::string id, framework, model;
  std::vector<std::string> labels;  ///< devices, then software
  std::string group;                ///< the key whose errors give the interval
  std::size_t group_runs = 0;
  double low = 0.0, high = 0.0;  ///< interval, seconds
  std::optional<double> measured;
  Report report;
  std::vector<ConstantAtRun> constants;  ///< that change the step by a part in a thousand or more, largest first
};

/// The row, or the reason why it is not predicted.
struct RunExplanation {
  std::optional<ExplainedRun> run;
  std::string reason;
};

/// Predicts one row and takes the prediction apart. Elasticities are differences of the estimator's own times.
[[nodiscard]] RunExplanation explain_run(const MeasuredRun&, const Library&, const std::vector<CostFile>&);

}  // namespace orrery
