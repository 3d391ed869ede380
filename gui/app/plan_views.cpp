#include "gui/app/plan_views.hpp"

#include <QDockWidget>
#include <QTabWidget>

#include "gui/app/main_window.hpp"
#include "gui/model/lesson_check.hpp"
#include "gui/widgets/learn_panel.hpp"
#include "gui/widgets/moves_panel.hpp"
#include "gui/widgets/plan_graph_panel.hpp"
#include "gui/widgets/topology_panel.hpp"

namespace orrery::gui {

PlanViews::PlanViews(MainWindow& window, QTabWidget& tabs) : QObject(&window), window_(window), tabs_(tabs) {
  topology_ = new TopologyPanel(window.document().library(), window.focus(), &tabs);
  graph_ = new PlanGraphPanel(window.focus(), &tabs);
  moves_ = new MovesPanel(&tabs);
  tabs.addTab(topology_, tr("T&opology"));
  tabs.addTab(graph_, tr("Plan &graph"));
  tabs.addTab(moves_, tr("Mo&ves"));
  learn_ = new LearnPanel(window.document(), &window);
  learn_dock_ = new QDockWidget(tr("Learn"), &window);
  learn_dock_->setObjectName(QStringLiteral("learn-dock"));
  learn_dock_->setWidget(learn_);
  window.addDockWidget(Qt::RightDockWidgetArea, learn_dock_);
  learn_dock_->hide();

  connect(topology_, &TopologyPanel::order_wished, this, [this](const std::vector<Axis>& order) {
    Diagnostics d;
    if (!window_.document().take(in_order(window_.document().run(), order), tr("Order of axes"), d)) {
      window_.show_problem(d);
    }
  });
  connect(topology_, &TopologyPanel::swap_wished, this, [this](std::uint32_t one, std::uint32_t other) {
    std::string message;
    auto run = with_swapped_devices(window_.document().run(), one, other, message);
    Diagnostics d;
    if (!run) d.error("gui.placement", message);
    if (!run || !window_.document().take(std::move(*run), tr("Ranks of devices %1 and %2").arg(one).arg(other), d)) {
      window_.show_problem(d);
    }
  });
  connect(learn_, &LearnPanel::problem, this, [this](const Diagnostics& d) { window_.show_problem(d); });
  connect(learn_, &LearnPanel::view_wished, this, [this](LessonView view, const QString& block) {
    auto* memory = window_.findChild<QDockWidget*>(QStringLiteral("memory-dock"));
    memory->setVisible(view == LessonView::memory);
    switch (view) {
      case LessonView::timeline: tabs_.setCurrentIndex(0); break;
      case LessonView::memory:
        window_.resizeDocks({memory, learn_dock_}, {230, 420}, Qt::Vertical);
        window_.explain(Metric::peak_memory);
        break;
      case LessonView::topology: tabs_.setCurrentWidget(topology_); break;
      case LessonView::graph: tabs_.setCurrentWidget(graph_); break;
      case LessonView::moves:
        moves_->show_block(block);
        tabs_.setCurrentWidget(moves_);
        break;
    }
  });
}

void PlanViews::set_prediction(const PredictionPointer& prediction) {
  topology_->set_prediction(prediction);
  graph_->set_prediction(prediction);
  moves_->set_prediction(prediction);
}

void PlanViews::set_step(const SimulatedPointer& step) { topology_->set_step(step); }

void PlanViews::show_lessons(bool on) {
  // Explanations give way, because the lesson explains. The memory gives way too, until a step is about it. Panels are
  // hidden first: all of them together are higher than a small window, which would grow.
  auto* explanation = window_.findChild<QDockWidget*>(QStringLiteral("explanation-dock"));
  auto* memory = window_.findChild<QDockWidget*>(QStringLiteral("memory-dock"));
  const bool was = explanation->isVisible();
  if (on) {
    explanation->hide();
    memory->setVisible(!learn_->lessons().empty() && learn_->current().view == LessonView::memory);
    learn_dock_->show();
    window_.resizeDocks({learn_dock_}, {420}, Qt::Vertical);
  } else {
    learn_dock_->hide();
    memory->show();
    explanation->show();
    if (!was) window_.resizeDocks({memory, explanation}, {320, 320}, Qt::Vertical);
  }
}

bool PlanViews::shows_lessons() const { return learn_dock_->isVisibleTo(&window_); }

void PlanViews::show(QWidget& panel) { tabs_.setCurrentWidget(&panel); }

bool PlanViews::is_settled() const { return topology_->is_settled() && graph_->is_settled(); }

}  // namespace orrery::gui
