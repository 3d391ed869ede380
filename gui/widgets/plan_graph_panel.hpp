#pragma once

#include <QWidget>

#include "gui/model/cell_table.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/graph_service.hpp"
#include "gui/model/services.hpp"

class QTableView;

namespace orrery::gui {

/// A graph as Graphviz laid it out, as large as the widget.  Left and right choose the stage before and after; + and -
/// zoom, Shift and arrows move, 0 shows the whole graph.
class GraphView : public QWidget {
  Q_OBJECT
 public:
  explicit GraphView(QWidget* parent = nullptr);
  void set_layout(GraphLayout);
  void set_message(const QString&);
  /// The node with a ring around it; empty: none.
  void mark(const std::string& node);
  [[nodiscard]] const GraphLayout& graph() const { return graph_; }
  [[nodiscard]] QSize minimumSizeHint() const override { return {200, 160}; }

 Q_SIGNALS:
  void node_chosen(const QString& name);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;

 private:
  /// From inches to the widget.
  [[nodiscard]] QTransform transform() const;
  void show_all();
  /// `fixed`, of the widget, stays where it is.
  void zoom(double factor, const QPointF& fixed);
  /// The stage after the marked one, or before it; the first where none is marked.
  void choose_next(int by);

  GraphLayout graph_;
  QString message_;
  std::string marked_;
  double zoom_ = 1.0;
  QPointF moved_, pressed_;
};

/// Stages of the plan, the groups that communicate in each, and what they send: a graph, and the same as a table.
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
