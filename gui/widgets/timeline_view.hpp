#pragma once

#include <QAbstractScrollArea>
#include <optional>

#include "gui/model/focus.hpp"
#include "gui/model/services.hpp"
#include "gui/model/timeline_strip.hpp"

namespace orrery::gui {

/// The simulated step: ranks by lanes over time, painted by hand.
///
/// Slices below a few pixels are drawn as a strip of one colour for each pixel,
/// wider ones as boxes with their names; idle time of the compute lane is
/// hatched.  W and S (or Ctrl and wheel) zoom, A and D pan, a drag selects a
/// range of time, Shift and drag pans, Escape selects nothing, 0 shows the whole step.
class TimelineView : public QAbstractScrollArea {
  Q_OBJECT
 public:
  explicit TimelineView(Focus&, QWidget* parent = nullptr);
  void set_step(SimulatedPointer);
  void set_colour(SliceColour);
  /// What is painted in place of a timeline.
  void set_message(const QString&);
  [[nodiscard]] TimeAxis axis() const;

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  bool viewportEvent(QEvent*) override;

 private:
  struct Row {
    const TimelineRank* rank;
    const TimelineLane* lane;
    int top, height;
    bool first;  ///< of its rank
  };
  void lay_out();
  void paint_ruler(QPainter&, const TimeAxis&) const;
  void paint_row(QPainter&, const Row&, const TimeAxis&) const;
  void paint_labels(QPainter&, const Row&) const;
  [[nodiscard]] const Row* row_at(int y) const;
  [[nodiscard]] QString describe(const Row&, const Slice&) const;
  void zoom(double factor, double x);

  Focus& focus_;
  SimulatedPointer step_;
  SliceColour colour_ = SliceColour::microbatch;
  QString message_;
  std::vector<Row> rows_;
  int content_height_ = 0;
  std::optional<int> pressed_x_;
  TimeRange pressed_range_;
  bool panning_ = false;
};

}  // namespace orrery::gui
