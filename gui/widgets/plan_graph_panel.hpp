#pragma once

#include <QWidget>

#include "gui/model/cell_table.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/graph_service.hpp"
#include "gui/model/services.hpp"

class QTableView;

namespace orrery::gui {

class GraphView;

/// Stages of the plan, the groups that communicate in each, and the bytes that they send: as a graph, and as a table.
class PlanGraphPanel : public QWidget {
  Q_OBJECT
 public:
  explicit PlanGraphPanel(Focus&, QWidget* parent = nullptr);
  void set_prediction(PredictionPointer);
  [[nodiscard]] const CellTable& table() const { return table_; }
  [[nodiscard]] bool is_settled() const { return !asked_; }

 protected:
  void showEvent(QShowEvent*) override;

 private:
  void ask();
  void follow_stage();

  Focus& focus_;
  GraphService service_;
  PredictionPointer prediction_;
  PlanGraph graph_;
  bool outdated_ = false, asked_ = false;
  CellTable table_;
  GraphView* view_;
  QTableView* list_;
};

}  // namespace orrery::gui
