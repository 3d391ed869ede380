#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/cell_table.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/memory_course.hpp"
#include "gui/model/services.hpp"

class QCPGraph;
class QCPItemStraightLine;
class QCustomPlot;
class QLabel;

namespace orrery::gui {

/// The memory of one rank over the simulated step, role upon role, in the range of time that the timeline shows. Below
/// it is the same as a table. The rank is one of the selected stage, or one of the fullest stage.
class MemoryTimeChart : public QWidget {
  Q_OBJECT
 public:
  explicit MemoryTimeChart(Focus&, QWidget* parent = nullptr);
  void set_step(SimulatedPointer);
  [[nodiscard]] const CellTable& table() const { return table_; }

 protected:
  void changeEvent(QEvent*) override;
  void showEvent(QShowEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  void choose_rank();
  void clear();
  void draw();
  void draw_cursor();
  void dress_chart();

  Focus& focus_;
  SimulatedPointer step_;
  std::vector<HeldMemory> course_;  ///< of the rank in hand
  CellTable table_;
  QLabel* title_;
  QCustomPlot* chart_;
  std::vector<QCPGraph*> graphs_;
  QCPItemStraightLine *capacity_, *cursor_;
  bool outdated_ = false;  ///< something changed while nobody looked
};

}  // namespace orrery::gui
