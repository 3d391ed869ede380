#pragma once

#include <QSortFilterProxyModel>
#include <QWidget>
#include <cstdint>
#include <vector>

#include "gui/model/cell_table.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/services.hpp"

class QCPBars;
class QCPItemText;
class QCPItemStraightLine;
class QCustomPlot;
class QLabel;
class QTabWidget;
class QTableView;

namespace orrery::gui {

class MemoryTimeChart;

/// The memory of each stage: its process with its tensors at their peak, as stacked bars against the device's capacity
/// and as a table; over the simulated step; and tensor by tensor.
class MemoryPanel : public QWidget {
  Q_OBJECT
 public:
  explicit MemoryPanel(Focus&, QWidget* parent = nullptr);
  void show_prediction(const PredictionPointer&);
  void set_step(const SimulatedPointer&);
  [[nodiscard]] const CellTable& table() const { return table_; }
  /// The height of a stage's bar, and the end of the device's memory, in GiB; 0 where they are not known.
  [[nodiscard]] double bar_height(std::uint32_t stage) const;
  [[nodiscard]] double capacity() const;
  [[nodiscard]] const CellTable& tensors() const { return tensors_; }
  [[nodiscard]] MemoryTimeChart& over_time() { return *over_time_; }
  /// Brings a page to the front.
  enum class Page : std::uint8_t { peak, over_time, tensors, table };
  void show_page(Page);

 protected:
  void changeEvent(QEvent*) override;

 private:
  QWidget* tensors_page();
  void show_report(const Report&);
  void show_tensors();
  void dress_chart();
  void follow_stage();

  Focus& focus_;
  PredictionPointer prediction_;
  CellTable table_, tensors_;
  QTabWidget* tabs_;
  QCustomPlot* chart_;
  QTableView *view_, *tensors_view_;
  QSortFilterProxyModel sorted_tensors_;
  QLabel* tensors_title_;
  MemoryTimeChart* over_time_;
  std::vector<QCPBars*> bars_;
  QCPItemStraightLine* capacity_;
  QCPItemText* capacity_text_;
  QCPBars* marked_;
};

}  // namespace orrery::gui
