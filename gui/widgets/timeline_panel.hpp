#pragma once

#include <QTimer>
#include <QWidget>
#include <memory>

#include "gui/model/cell_table.hpp"
#include "gui/model/services.hpp"
#include "gui/widgets/timeline_view.hpp"

class QComboBox;
class QHBoxLayout;
class QLabel;
class QLineEdit;
class QTableView;
class QTabWidget;
class QToolButton;

namespace orrery::gui {

/// The timeline with its controls. Below it are the contents of the selected range (or the visible one), the waits of
/// the selected operation, and the critical path.
class TimelinePanel : public QWidget {
  Q_OBJECT
 public:
  explicit TimelinePanel(Focus&, QWidget* parent = nullptr);
  void set_step(SimulatedPointer);
  /// Ignored unless it belongs to the step that is shown.
  void set_analysis(AnalysisPointer);
  /// Shows a message in place of a step; nothing of an earlier step stays.
  void set_message(const QString&);
  /// Whether the step that is shown belongs to the plan before.
  void set_outdated(bool);
  [[nodiscard]] const SimulatedPointer& step() const { return step_; }
  [[nodiscard]] TimelineView& view() { return *view_; }
  [[nodiscard]] const CellTable& statistics() const { return statistics_; }
  [[nodiscard]] const CellTable& dependencies() const { return dependencies_; }
  [[nodiscard]] const CellTable& path() const { return path_; }
  [[nodiscard]] const AnalysisPointer& analysis() const { return analysis_; }
  [[nodiscard]] bool is_playing() const { return player_.isActive(); }

 protected:
  void keyPressEvent(QKeyEvent*) override;

 private:
  void make_viewing_row(QHBoxLayout*);
  void make_finding_row(QHBoxLayout*);
  QTableView* add_table(CellTable&, const QString& title, const QString& what);
  QToolButton* button(QHBoxLayout*, const QString& text, const QString& tip);
  void count();
  void show_op();
  /// Says that steps of too many operations are drawn, but not analysed.
  void tell_limit();
  void show_path();
  void look_for(const QString&);
  void find_next(bool forward);
  void step_by(bool forward);
  void play(bool);
  void advance();
  void follow_cursor();

  Focus& focus_;
  SimulatedPointer step_;
  AnalysisPointer analysis_;
  std::unique_ptr<SliceQuery> query_;
  TimelineView* view_;
  QTabWidget* tables_;
  QLabel *range_, *found_, *now_;
  QLineEdit* search_;
  QToolButton *path_button_, *play_button_;
  QComboBox* speed_;
  CellTable statistics_, dependencies_, path_;
  QTimer player_;
};

}  // namespace orrery::gui
