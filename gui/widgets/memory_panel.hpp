#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/cell_table.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/services.hpp"

class QCPBars;
class QCPItemText;
class QCPItemStraightLine;
class QCustomPlot;
class QTableView;

namespace orrery::gui {

/// What each stage holds at its peak, as stacked bars against the device's capacity, and the same as a table.
class MemoryPanel : public QWidget {
  Q_OBJECT
 public:
  explicit MemoryPanel(Focus&, QWidget* parent = nullptr);
  void show_report(const Report&);
  [[nodiscard]] const CellTable& table() const { return table_; }

 protected:
  void changeEvent(QEvent*) override;

 private:
  void dress_chart();
  void follow_stage();

  Focus& focus_;
  CellTable table_;
  QCustomPlot* chart_;
  QTableView* view_;
  std::vector<QCPBars*> bars_;
  QCPItemStraightLine* capacity_;
  QCPItemText* capacity_text_;
  QCPBars* marked_;
};

}  // namespace orrery::gui
