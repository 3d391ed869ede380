#pragma once

#include <QTransform>
#include <QWidget>
#include <string>

#include "gui/model/plan_graph.hpp"

namespace orrery::gui {

/// A graph as Graphviz laid it out. It is as large as the widget, or, where that is too small to be read, the view
/// shows its beginning. Left and right choose the stage before and after; + and - zoom, Shift and arrows move, 0 shows
/// the whole graph.
class GraphView : public QWidget {
  Q_OBJECT
 public:
  explicit GraphView(QWidget* parent = nullptr);
  void set_layout(GraphLayout);
  void set_message(const QString&);
  /// Draws a ring around the node and moves it to where it can be seen; empty: no node.
  void mark(const std::string& node);
  [[nodiscard]] const GraphLayout& graph() const { return graph_; }
  /// Where a node is painted.
  [[nodiscard]] QRectF box_of(const GraphLayout::Node&) const;
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
  /// Pixels per inch with which the whole graph is shown.
  [[nodiscard]] double whole_scale() const;
  /// From here on the view counts as zoomed and moved.
  void leave_start();
  /// `fixed`, of the widget, stays where it is.
  void zoom(double factor, const QPointF& fixed);
  /// The stage after the marked one, or before it; the first where none is marked.
  void choose_next(int by);

  GraphLayout graph_;
  QString message_;
  std::string marked_;
  double zoom_ = 1.0;
  bool at_start_ = true;  ///< nobody has zoomed or moved yet
  QPointF moved_, pressed_;
};

}  // namespace orrery::gui
