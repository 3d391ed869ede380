#pragma once

#include <QLabel>
#include <QSortFilterProxyModel>
#include <QTimer>
#include <QWidget>
#include <vector>

#include "gui/model/cell_table.hpp"
#include "gui/model/focus.hpp"
#include "gui/model/search_service.hpp"

class QComboBox;
class QCPCurve;
class QCPGraph;
class QCustomPlot;
class QLineEdit;
class QProgressBar;
class QPushButton;
class QSpinBox;
class QTableView;

namespace orrery::gui {

/// The planner: the goal of the search, its progress, and the plans found, as a table and as a scatter of time or cost
/// and memory. Table and scatter share the selection of Focus.
class SearchPanel : public QWidget {
  Q_OBJECT
 public:
  SearchPanel(SearchService&, Focus&, QWidget* parent = nullptr);
  [[nodiscard]] SearchWish wish() const;
  [[nodiscard]] const CellTable& table() const { return table_; }
  [[nodiscard]] const std::vector<FoundPlan>& plans() const { return plans_; }
  /// Whether the plans belong to another model, workload or cluster than the edited ones.
  [[nodiscard]] bool is_outdated() const { return !outdated_->text().isEmpty(); }

 public Q_SLOTS:
  /// Reports that a search has begun, or why none can.
  void begin(const PricedRun& on);
  void refuse(const QString& why);
  /// Tells what is edited now. Plans that were found for something else are marked, and cannot be taken.
  void follow(const std::shared_ptr<const PricedRun>& now);

 Q_SIGNALS:
  void start_wished();
  /// Asks to edit the plan, which was found on `on`.
  void plan_wished(const orrery::FoundPlan&, const orrery::gui::PricedRun& on);

 protected:
  void changeEvent(QEvent*) override;

 private:
  /// The place of the plan in the chart.
  [[nodiscard]] std::pair<double, double> point_of(const FoundPlan&) const;
  void show_progress(const SearchProgress&);
  void take(const FoundPlan&);
  void finish(const std::shared_ptr<const SearchEnd>&);
  void show_plans();
  void follow_selection();
  void dress_chart();
  void wish_for_selected();
  void mark_outdated();

  SearchService& service_;
  Focus& focus_;
  PricedRun on_;  ///< what was searched
  std::shared_ptr<const PricedRun> now_;
  std::vector<FoundPlan> plans_;  ///< best first
  QTimer shown_soon_;
  CellTable table_;
  QSortFilterProxyModel sorted_;
  QComboBox* objective_;
  QComboBox* space_;
  QLineEdit* limits_;
  QComboBox* across_;
  QSpinBox* top_;
  QLineEdit* filter_;
  QPushButton* start_;
  QPushButton* cancel_;
  QPushButton* use_;
  QProgressBar* bar_;
  QLabel* status_;
  QLabel* outdated_;
  QTableView* view_;
  QCustomPlot* chart_;
  QCPGraph* others_;
  QCPGraph* front_;
  QCPGraph* selected_;
};

}  // namespace orrery::gui
