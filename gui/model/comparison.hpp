#pragma once

#include <QObject>
#include <QString>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/record/compare.hpp"
#include "core/record/profiled_step.hpp"
#include "gui/model/basis.hpp"
#include "gui/model/latest_worker.hpp"
#include "gui/model/prediction.hpp"
#include "gui/model/tables.hpp"
#include "gui/model/timeline.hpp"

namespace orrery::gui {

/// A part of the compute lanes' time.
struct TimePart {
  enum class Group : std::uint8_t { compute, communication, bubble };
  std::string name;  ///< "compute: forward", "waiting for all_reduce tensor", "bubble"
  Group group = Group::compute;
  std::int64_t time = 0;  ///< picoseconds, summed over the timeline's ranks
};
/// The parts of a step's time, the computed ones first, the bubble last. Adds up to the step on every rank of the
/// timeline, to the picosecond.
[[nodiscard]] std::vector<TimePart> time_parts(const Timeline&);

/// One step of the way from a step time to another: means over ranks, in seconds.
struct WaterfallTerm {
  std::string name;
  TimePart::Group group = TimePart::Group::compute;
  double a = 0.0, b = 0.0;
  [[nodiscard]] double change() const { return b - a; }
};
/// The terms between two timelines, whose ranks each stand for equally many. Where one is of a profile, the terms are
/// those that both know: computing, and waiting for each kind of transfer. Changes add up to the difference of the
/// steps.
[[nodiscard]] std::vector<WaterfallTerm> waterfall(const Timeline& a, const Timeline& b);

/// A decision, or a part of model, cluster or workload, that two plans do not share.
struct FieldDifference {
  std::string field;  ///< as plan files call it: "plan.zero_stage"
  std::string a, b;
};
[[nodiscard]] std::vector<FieldDifference> field_differences(const PlannedRun& a, const PlannedRun& b);

/// What is compared: a plan, as it is predicted, or a measured step of it.
struct ComparisonSource {
  QString name;
  std::shared_ptr<const PricedRun> run;
  QString trace_file;        ///< from `orrery run --trace`, or from PyTorch's profiler; empty: predicted
  QStringList more_files{};  ///< of the profiler: other ranks
};
struct ComparedSide {
  QString name;
  bool measured = false;
  PredictionPointer prediction;  ///< also of a measured plan: its Program
  Trace trace;
  Timeline timeline;
};
/// Two plans, or a plan's prediction (a) and measurement (b), with the figures of `orrery compare`.
struct PlanComparison {
  ComparedSide a, b;
  /// For plans: their estimates. b counts as the prediction and a as the measurement, so errors are changes from a to
  /// b. With a measurement: the error of the prediction, by traces.
  Comparison figures;
  std::vector<WaterfallTerm> terms;
  std::vector<FieldDifference> differences;
  std::vector<std::string> notes;  ///< what was assumed of a profile
  [[nodiscard]] bool has_measurement() const { return b.measured; }
  /// Differences between the plans in model, cluster, workload and prices; empty beside a measurement, which is of the
  /// plan itself.
  [[nodiscard]] std::vector<BasisDifference> basis() const;
  /// Whether changes between them are shown as percentages.
  [[nodiscard]] bool are_comparable() const;
};
using ComparisonPointer = std::shared_ptr<const PlanComparison>;

/// Whether the file begins as PyTorch's profiler writes it.
[[nodiscard]] bool is_profile(const QString& file);

/// Predicts, simulates and reads both sides. `a` must not be a measurement unless `b` is one. A measurement set against
/// a plan is compared with the prediction of its own ranks. Throws Error with the mistakes of a trace, and
/// SimulationCancelled.
[[nodiscard]] PlanComparison compare_sources(const ComparisonSource& a, const ComparisonSource& b,
                                             const std::atomic<bool>& cancelled);

/// The same on a thread of its own; a newer request stops the older.
class CompareService : public QObject {
  Q_OBJECT
 public:
  explicit CompareService(QObject* parent = nullptr);
  void request(ComparisonSource a, ComparisonSource b);

 Q_SIGNALS:
  void compared(const orrery::gui::ComparisonPointer&);
  void failed(const QString& why);

 private:
  struct Request {
    ComparisonSource a, b;
  };
  LatestWorker<Request> worker_;
};

// The tables of a comparison.

[[nodiscard]] TableContent figures_table(const PlanComparison&);
/// Terms and, last, the step.
[[nodiscard]] TableContent waterfall_table(const PlanComparison&);
[[nodiscard]] TableContent operations_table(const PlanComparison&);
[[nodiscard]] TableContent differences_table(const PlanComparison&);

}  // namespace orrery::gui
