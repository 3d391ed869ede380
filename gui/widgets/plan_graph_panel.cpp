#include "gui/widgets/plan_graph_panel.hpp"

#include <fmt/format.h>

#include <QHeaderView>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/widgets/graph_view.hpp"

namespace orrery::gui {

PlanGraphPanel::PlanGraphPanel(Focus& focus, QWidget* parent) : QWidget(parent), focus_(focus) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  auto* split = new QSplitter(Qt::Vertical, this);
  view_ = new GraphView(split);
  list_ = new QTableView(split);
  list_->setModel(&table_);
  list_->setObjectName(QStringLiteral("plan-graph-table"));
  list_->setAccessibleName(tr("What the groups of each stage send"));
  list_->verticalHeader()->hide();
  list_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  list_->setSelectionBehavior(QAbstractItemView::SelectRows);
  list_->setAlternatingRowColors(true);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setShowGrid(false);
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({440, 150});
  column->addWidget(split);
  connect(&service_, &GraphService::laid_out, this, [this](const GraphLayout& layout) {
    asked_ = false;
    view_->set_layout(layout);
  });
  connect(&service_, &GraphService::failed, this, [this](const QString& why) {
    asked_ = false;
    view_->set_message(why);
  });
  connect(view_, &GraphView::node_chosen, this, [this](const QString& name) {
    const auto node = stage_node(name.toStdString());
    if (node && *node < graph_.stages.size()) focus_.set_stage(graph_.stages[*node].first);
  });
  connect(&focus_, &Focus::stage_changed, this, [this] { follow_stage(); });
}

void PlanGraphPanel::set_prediction(PredictionPointer prediction) {
  prediction_ = std::move(prediction);
  ask();
}

void PlanGraphPanel::ask() {
  outdated_ = !isVisible();
  if (outdated_ || !prediction_) return;
  graph_ = make_plan_graph(*prediction_);
  TableContent content = plan_graph_table(graph_);
  table_.set(std::move(content.headers), std::move(content.rows));
  list_->resizeColumnsToContents();
  follow_stage();
  asked_ = true;
  service_.request(dot_of(graph_));
}

void PlanGraphPanel::follow_stage() {
  std::string name;
  for (std::size_t n = 0; focus_.stage() && n < graph_.stages.size(); ++n) {
    if (graph_.stages[n].first <= *focus_.stage() && *focus_.stage() <= graph_.stages[n].last)
      name = fmt::format("s{}", n);
  }
  view_->mark(name);
}

void PlanGraphPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (outdated_) ask();
}

}  // namespace orrery::gui
