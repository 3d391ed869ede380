#pragma once

#include <QWidget>

#include "gui/model/cell_table.hpp"
#include "gui/widgets/timeline_view.hpp"

class QLabel;
class QTableView;

namespace orrery::gui {

/// The timeline with its controls, and what the selected range (or the one on the screen) holds.
class TimelinePanel : public QWidget {
  Q_OBJECT
 public:
  explicit TimelinePanel(Focus&, QWidget* parent = nullptr);
  void set_step(SimulatedPointer);
  void set_message(const QString& message) { view_->set_message(message); }
  [[nodiscard]] TimelineView& view() { return *view_; }
  [[nodiscard]] const CellTable& statistics() const { return statistics_; }

 private:
  void count();

  Focus& focus_;
  SimulatedPointer step_;
  TimelineView* view_;
  QLabel* range_;
  QTableView* table_;
  CellTable statistics_;
};

}  // namespace orrery::gui
