#pragma once

#include <QTransform>
#include <QWidget>
#include <string>

#include "gui/model/plan_graph.hpp"

namespace orrery::gui {

/// A graph as Graphviz laid it out, as large as the widget, or, where that is too small to be read, its beginning. Left
/// and right choose the stage before and after; + and - zoom, Shift and arrows move, 0 shows the whole graph.
class GraphView : public QWidget {
  Q_OBJECT
 public:
  explicit GraphView(QWidget* parent = nullptr);
  void set_layout(GraphLayout);
  void set_message(const QString&);
  /// The node with a ring around it, moved to where it can be seen; empty: none.
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
  /// Pixels of an inch that show the whole graph.
  [[nodiscard]] double whole_scale() const;
  /// The view as it is becomes one that was zoomed and moved.
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
