#pragma once

#include <QAbstractScrollArea>
#include <QPixmap>
#include <optional>

#include "gui/model/dependencies.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/timeline_strip.hpp"

namespace orrery::gui {

/// A step: ranks by lanes over time, and the memory of ranks, painted by hand.
///
/// Slices below a few pixels are drawn as a strip of one colour for each pixel, wider ones as boxes with their names.
/// Idle time of the compute lane is hatched where it is bubble and tinted where it waits for communication. W and S (or
/// Ctrl and wheel) zoom, and A and D pan. A drag selects a range of time, and Shift and drag pans. A click selects an
/// operation (with arrows to the ops that it waited for, and from it to those that wait for it). Escape selects
/// nothing, and 0 shows the whole step.
///
/// Rows are painted when they change; the cursor, the selection and arrows are
/// drawn over a picture of them.  All ranges of time are the Focus's.
class TimelineView : public QAbstractScrollArea {
  Q_OBJECT
 public:
  explicit TimelineView(Focus&, QWidget* parent = nullptr);
  /// Drops arrows and path of the step before.
  void set_timeline(TimelinePointer);
  void set_colour(SliceColour);
  /// Sets the critical path; empty: none.
  void set_path(std::vector<PathMark>);
  /// Sets the arrows of the selected operation.
  void set_arrows(std::vector<Dependency>);
  /// Sets the text that is painted in place of a timeline.
  void set_message(const QString&);
  /// Covers the timeline with a veil and says that it belongs to the plan before.
  void set_outdated(bool);
  [[nodiscard]] bool is_outdated() const { return outdated_; }
  /// Sets a text in the corner in place of the step's length.
  void set_title(const QString&);
  /// Scrolls and pans until the slice can be seen.
  void reveal(const SlicePlace&);
  [[nodiscard]] TimeAxis axis() const;
  /// The place of a slice on the viewport; empty where its row is not visible.
  [[nodiscard]] QRectF rect_of(const SlicePlace&) const;

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void changeEvent(QEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  bool viewportEvent(QEvent*) override;

 private:
  enum class RowKind : std::uint8_t { compute, lane, memory };
  struct Row {
    RowKind kind;
    std::uint32_t rank, lane;  ///< positions in the timeline; memory: lane means nothing
    int top, height;
  };
  [[nodiscard]] const TimelineRank& rank_of(const Row& row) const { return timeline_->ranks[row.rank]; }
  [[nodiscard]] const TimelineLane& lane_of(const Row& row) const { return rank_of(row).lanes[row.lane]; }
  void lay_out();
  void repaint_rows();
  void paint_rows(QPainter&) const;
  void paint_ruler(QPainter&, const TimeAxis&) const;
  void paint_row(QPainter&, const Row&, const TimeAxis&) const;
  void paint_idle(QPainter&, const Row&, const TimeAxis&) const;
  void paint_memory(QPainter&, const Row&, const TimeAxis&) const;
  void paint_labels(QPainter&, const Row&) const;
  void paint_path(QPainter&, const TimeAxis&) const;
  void paint_arrows(QPainter&) const;
  void paint_cursor(QPainter&, const TimeAxis&) const;
  [[nodiscard]] const Row* row_at(int y) const;
  [[nodiscard]] const Row* row_of(std::uint32_t rank, std::uint32_t lane) const;
  [[nodiscard]] QString describe(const Row&, const Slice&) const;
  [[nodiscard]] QString tip_at(const QPoint&) const;
  void click(const QPoint&);
  void zoom(double factor, double x);

  Focus& focus_;
  TimelinePointer timeline_;
  SliceColour colour_ = SliceColour::microbatch;
  std::vector<PathMark> path_;
  std::vector<Dependency> arrows_;
  bool outdated_ = false;
  QString message_, title_;
  std::vector<Row> rows_;
  QPixmap picture_;  ///< of the rows as they are; null: to be painted
  int content_height_ = 0;
  std::optional<int> pressed_x_;
  TimeRange pressed_range_;
  bool panning_ = false;
};

}  // namespace orrery::gui
