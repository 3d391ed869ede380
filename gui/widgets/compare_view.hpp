#pragma once

#include <QWidget>

#include "gui/model/cell_table.hpp"
#include "gui/model/comparison.hpp"
#include "gui/model/focus.hpp"

class QLabel;
class QSplitter;
class QTabWidget;
class QTableView;

namespace orrery::gui {

class TimelineView;
class WaterfallChart;

/// Two steps, one above the other on one scale of time. Below them are the parts of the time, figures, operations, and
/// the decisions in which the plans differ.
class CompareView : public QWidget {
  Q_OBJECT
 public:
  explicit CompareView(QWidget* parent = nullptr);
  void show_comparison(const ComparisonPointer&);
  /// Shows a message in place of everything, because there is no comparison any more.
  void set_message(const QString&);
  /// Greys the view and says why it does not belong to the current plans; empty: it does.
  void set_outdated(const QString& why);
  [[nodiscard]] bool is_outdated() const;
  [[nodiscard]] const ComparisonPointer& comparison() const { return comparison_; }
  [[nodiscard]] Focus& focus() { return focus_; }
  [[nodiscard]] const CellTable& figures() const { return figures_; }
  [[nodiscard]] const CellTable& waterfall() const { return waterfall_; }
  [[nodiscard]] const CellTable& operations() const { return operations_; }
  [[nodiscard]] const CellTable& differences() const { return differences_; }
  [[nodiscard]] TimelineView& first() { return *first_; }
  [[nodiscard]] TimelineView& second() { return *second_; }

 private:
  void add_table(CellTable&, const QString& title, const char* name, const QString& what);

  Focus focus_;
  ComparisonPointer comparison_;
  TimelineView *first_, *second_;
  QTabWidget* tabs_;
  QLabel *outdated_, *notes_, *empty_;
  QSplitter* split_;
  WaterfallChart* chart_;
  CellTable figures_, waterfall_, operations_, differences_;
};

}  // namespace orrery::gui
