#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec/library.hpp"
#include "validate/cost_file.hpp"
#include "validate/measured_run.hpp"
#include "validate/statistics.hpp"

namespace orrery {

/// Predicted beside measured, and the signed error in percent.
struct PredictedMeasured {
  double predicted = 0.0;
  double measured = 0.0;
  double error_pct = 0.0;
  friend bool operator==(const PredictedMeasured&, const PredictedMeasured&) = default;
};

/// A row that was predicted.
struct ValidatedRun {
  std::string id;
  std::string gpu, source, precision, framework, kind;  ///< what summaries group by; kind: "dense" or "mixture"
  std::string interval_of;                    ///< the runs whose errors gave the interval (HeldOutErrors::group)
  double step = 0.0;                          ///< seconds of a step, as predicted
  std::optional<PredictedMeasured> time;      ///< the prediction beside the measured time; unset: only memory was
                                              ///< measured
  std::string work;                           ///< model, sequence, precision, devices and software, as the row has them
  std::string plan;                           ///< batch and plan, as the row has them
  double sequences = 1.0;                     ///< of a step
  double low = 0.0, high = 0.0;               ///< step time: eight runs in ten lie between (HeldOutErrors)
  std::optional<PredictedMeasured> memory;    ///< bytes; where the row publishes the peak of allocated memory
  std::optional<PredictedMeasured> reserved;  ///< bytes; where it publishes the peak of reserved memory
  std::vector<std::string> filled;            ///< columns whose empty cells a rule filled
  friend bool operator==(const ValidatedRun&, const ValidatedRun&) = default;
};

/// A row that could not be predicted, and the reason.
struct SkippedRun {
  std::string id;
  std::string reason;
  bool full_configuration = false;  ///< the row publishes its shape, batch, plan, precision and time
  friend bool operator==(const SkippedRun&, const SkippedRun&) = default;
};

struct RunSummary {
  ErrorSummary time, memory, reserved;
  friend bool operator==(const RunSummary&, const RunSummary&) = default;
};
[[nodiscard]] RunSummary summarize_runs(const std::vector<const ValidatedRun*>&);

/// A whole table; rows.size() + inconsistent.size() + skipped.size() is its number of rows.
struct Validation {
  std::string tier;                        ///< that predicted: "estimate"
  std::vector<ValidatedRun> rows;          ///< in the order of the table; the summary is over these
  std::vector<ValidatedRun> inconsistent;  ///< rows whose notes call the source inconsistent: listed, in no summary
  std::vector<SkippedRun> skipped;
  std::size_t full_configurations = 0;  ///< rows of the table that have one
  friend bool operator==(const Validation&, const Validation&) = default;
};

/// Predicts every row of a table.  The same table gives the same bytes.
[[nodiscard]] Validation validate(const std::vector<MeasuredRun>&, const Library&);

/// The constants of training software that the data directory holds (models/software). They are read once, since a
/// command asks for them for every program that it prices.
[[nodiscard]] const std::vector<CostFile>& shipped_costs(const Library&);

/// Share of the predicted rows with a measured time whose time lies inside the interval; 0 without such rows.
[[nodiscard]] double interval_coverage(const Validation&);
[[nodiscard]] double interval_coverage(const std::vector<const ValidatedRun*>&);

/// Summary of all rows, and of those where no rule filled a cell.
[[nodiscard]] RunSummary summary_of_all(const Validation&);
[[nodiscard]] RunSummary summary_of_published(const Validation&);

enum class GroupBy : std::uint8_t { gpu, source, precision, framework, kind, interval };
/// The name of the group that a run is in.
[[nodiscard]] const std::string& group_name(const ValidatedRun&, GroupBy);
struct RunGroup {
  std::string name;
  RunSummary summary;
  double coverage = 0.0;  ///< share of its timed rows that lie inside their intervals
  friend bool operator==(const RunGroup&, const RunGroup&) = default;
};
/// Groups stand in order of their names.
[[nodiscard]] std::vector<RunGroup> grouped(const Validation&, GroupBy);

/// Measured seconds of a step: as published, or computed from the published tokens per second and GPU. Unset where
/// neither is known.
[[nodiscard]] std::optional<double> measured_step(const MeasuredRun&);
/// Whether a row states everything that a prediction needs, and how long a step took.
[[nodiscard]] bool has_full_configuration(const MeasuredRun&);

}  // namespace orrery
