#pragma once

#include <QObject>
#include <QString>
#include <memory>

#include "gui/model/dependencies.hpp"
#include "gui/model/latest_worker.hpp"
#include "gui/model/prediction.hpp"
#include "gui/model/timeline.hpp"

namespace orrery::gui {

using PredictionPointer = std::shared_ptr<const Prediction>;

/// A simulated step as views show it.
struct SimulatedStep {
  PredictionPointer prediction;
  Simulation simulation;
  Timeline timeline;
};
using SimulatedPointer = std::shared_ptr<const SimulatedStep>;
[[nodiscard]] inline TimelinePointer timeline_of(const SimulatedPointer& step) { return {step, &step->timeline}; }

/// Why a simulated step takes as long as it does.
struct StepAnalysis {
  SimulatedPointer step;
  std::shared_ptr<const Dependencies> dependencies;
  CriticalPath path;
  std::vector<PathMark> marks;  ///< of the path, on the timeline
  std::vector<Gain> gains;      ///< what faster ops would bring; empty until `complete`
  bool complete = false;
};
using AnalysisPointer = std::shared_ptr<const StepAnalysis>;

/// Predicts on threads of its own. The latest request wins, and answers come in the order of the requests. Each request
/// is answered at once, and, unless a newer one has come, again when it is complete, which no caller waits for.
class PredictionService : public QObject {
  Q_OBJECT
 public:
  explicit PredictionService(QObject* parent = nullptr);
  void request(std::shared_ptr<const PricedRun>);

 Q_SIGNALS:
  void predicted(const orrery::gui::PredictionPointer&);
  void failed(const QString& why);

 private:
  PredictionPointer tell(Prediction&&);

  std::shared_ptr<const PricedRun> newest_;
  LatestWorker<PredictionPointer> completions_;
  LatestWorker<std::shared_ptr<const PricedRun>> worker_;  ///< last: its thread uses the others
};

/// Simulates on a thread of its own; a newer request stops the older. When the step is there it is analysed. First come
/// the waits and the critical path, then, by simulating the step again for each kind of op on it, the gains from faster
/// ops.
class SimulationService : public QObject {
  Q_OBJECT
 public:
  /// `analyses`: steps are analysed too.
  explicit SimulationService(QObject* parent = nullptr, bool analyses = true);
  void request(PredictionPointer);

 Q_SIGNALS:
  void simulated(const orrery::gui::SimulatedPointer&);
  void analysed(const orrery::gui::AnalysisPointer&);
  void failed(const QString& why);

 private:
  void analyse(const SimulatedPointer&, const std::atomic<bool>& outdated);

  LatestWorker<PredictionPointer> worker_;  ///< last: its thread uses the others
};

/// A step with more operations of the traced ranks is not drawn.
inline constexpr std::uint64_t most_drawn_operations = std::uint64_t{1} << 24;
/// A step with more of them is not analysed, because that takes a hundred bytes for each.
inline constexpr std::uint64_t most_analysed_operations = std::uint64_t{1} << 22;
/// The operations of one rank of each class.
[[nodiscard]] std::uint64_t traced_operations(const Program&);

}  // namespace orrery::gui
