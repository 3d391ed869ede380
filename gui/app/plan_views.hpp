#pragma once

#include <QObject>

#include "gui/model/services.hpp"

class QDockWidget;
class QTabWidget;
class QWidget;

namespace orrery::gui {

class LearnPanel;
class MainWindow;
class MovesPanel;
class PlanGraphPanel;
class TopologyPanel;

/// The views of where ranks are and what they send (topology, plan graph, moves), and the lessons that use them. It
/// makes them in the window and connects them.
class PlanViews : public QObject {
  Q_OBJECT
 public:
  PlanViews(MainWindow&, QTabWidget&);

  void set_prediction(const PredictionPointer&);
  void set_step(const SimulatedPointer&);
  /// Shows lessons beside the views that they are about; otherwise panels are as before.
  void show_lessons(bool);
  [[nodiscard]] bool shows_lessons() const;
  [[nodiscard]] TopologyPanel& topology() { return *topology_; }
  [[nodiscard]] PlanGraphPanel& graph() { return *graph_; }
  [[nodiscard]] MovesPanel& moves() { return *moves_; }
  [[nodiscard]] LearnPanel& learn() { return *learn_; }
  /// Brings one of the panels to the front.
  void show(QWidget& panel);
  [[nodiscard]] bool is_settled() const;

 private:
  MainWindow& window_;
  QTabWidget& tabs_;
  TopologyPanel* topology_;
  PlanGraphPanel* graph_;
  MovesPanel* moves_;
  LearnPanel* learn_;
  QDockWidget* learn_dock_;
};

}  // namespace orrery::gui
