#pragma once

#include <QObject>
#include <QString>
#include <memory>

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

/// Predicts on a thread of its own: latest request wins, answers come in the order of the requests.  Each request is
/// answered at once, and, unless a newer one waits, again when it is complete.
class PredictionService : public QObject {
  Q_OBJECT
 public:
  explicit PredictionService(QObject* parent = nullptr);
  void request(std::shared_ptr<const PricedRun>);

 Q_SIGNALS:
  void predicted(const orrery::gui::PredictionPointer&);
  void failed(const QString& why);

 private:
  LatestWorker<std::shared_ptr<const PricedRun>> worker_;
};

/// Simulates on a thread of its own; a newer request stops the older.
class SimulationService : public QObject {
  Q_OBJECT
 public:
  explicit SimulationService(QObject* parent = nullptr);
  void request(PredictionPointer);

 Q_SIGNALS:
  void simulated(const orrery::gui::SimulatedPointer&);
  void failed(const QString& why);

 private:
  LatestWorker<PredictionPointer> worker_;
};

/// Operations of the traced ranks above which a step is not drawn.
inline constexpr std::uint64_t most_drawn_operations = std::uint64_t{1} << 24;
/// Those of one rank of each class.
[[nodiscard]] std::uint64_t traced_operations(const Program&);

}  // namespace orrery::gui
