#include "gui/app/screenshots.hpp"

#include <QCoreApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QPushButton>
#include <QThread>
#include <QToolButton>
#include <cstdio>
#include <functional>

#include "gui/app/main_window.hpp"
#include "gui/app/plan_views.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_view.hpp"
#include "gui/widgets/learn_panel.hpp"
#include "gui/widgets/memory_panel.hpp"
#include "gui/widgets/moves_panel.hpp"
#include "gui/widgets/plan_graph_panel.hpp"
#include "gui/widgets/search_panel.hpp"
#include "gui/widgets/timeline_panel.hpp"
#include "gui/widgets/topology_panel.hpp"
#include "gui/widgets/validate_panel.hpp"

namespace orrery::gui {
namespace {

bool wait_for(const std::function<bool()>& holds, int milliseconds = 120'000) {
  QElapsedTimer timer;
  timer.start();
  while (!holds()) {
    if (timer.elapsed() > milliseconds) return false;
    QCoreApplication::processEvents(QEventLoop::AllEvents, 20);
    QThread::msleep(5);  // the measured run, which goes on meanwhile, needs the core
  }
  QCoreApplication::processEvents();
  return true;
}

}  // namespace

int take_screenshots(MainWindow& window, const QString& folder) {
  if (!QDir().mkpath(folder)) {
    std::fprintf(stderr, "error: cannot make the folder %s\n", qPrintable(folder));
    return 3;
  }
  window.show();
  const auto settled = [&] { return wait_for([&] { return window.is_settled(); }); };
  bool good = settled();
  // Takes a baseline, and then a plan that differs from it.
  window.pin_baseline();
  window.document().wish(dimension("plan.microbatch_size"), 2);
  good = good && settled();
  window.focus().set_stage(1);
  window.search_panel().findChild<QPushButton*>(QStringLiteral("search-start"))->click();
  good = good && wait_for([&] { return !window.search().is_running(); });
  // The analysis comes after the step; the comparison comes once its panel is seen.
  good = good && wait_for([&] { return window.timeline().analysis() && window.timeline().analysis()->complete; });
  window.use_layout(Layout::compare);
  good = good && wait_for([&] { return window.compare_panel().is_settled(); });
  const std::int64_t step = window.focus().duration();
  // Somewhere in the middle is an operation that waited for another stage.
  const Timeline& timeline = window.timeline().analysis()->step->timeline;
  const SliceQuery query(timeline, "exchange");
  std::optional<SlicePlace> message;
  for (int i = 0; i < 150; ++i) message = next_match(timeline, query, message, true);
  struct Picture {
    const char* name;
    std::function<void()> prepare;
  };
  const Picture pictures[] = {
      {"timeline",
       [&] {
         window.use_layout(Layout::explore);
         window.focus().show_all();
         window.focus().select(std::nullopt);
         window.explain(Metric::step_time);
       }},
      {"timeline-zoomed",
       [&] {
         window.focus().set_visible({step / 2, step / 2 + step / 160});
         window.focus().select(TimeRange{step / 2 + step / 800, step / 2 + step / 320});
         window.explain(Metric::peak_memory);
       }},
      {"operation",
       [&] {
         if (!message) return;
         window.focus().select(std::nullopt);
         window.focus().set_op(op_of(timeline, *message));
         const std::int64_t at = slice_of(timeline, *message).start;
         window.focus().set_visible({at - step / 60, at + step / 60});
       }},
      {"critical-path",
       [&] {
         window.focus().set_op(std::nullopt);
         window.focus().show_all();
         auto* button = window.timeline().findChild<QToolButton*>(QStringLiteral("show-path"));
         button->setChecked(false);
         button->setChecked(true);
       }},
      {"memory-over-time",
       [&] {
         window.timeline().findChild<QToolButton*>(QStringLiteral("show-path"))->setChecked(false);
         window.focus().show_all();
         window.focus().set_cursor(step / 3);
         window.widen_side(0.3);
         window.memory_panel().show_page(MemoryPanel::Page::over_time);
       }},
      {"memory-tensors",
       [&] {
         window.focus().set_cursor(std::nullopt);
         window.memory_panel().show_page(MemoryPanel::Page::tensors);
         window.explain(Metric::peak_memory);
       }},
      {"compare",
       [&] {
         window.memory_panel().show_page(MemoryPanel::Page::peak);
         window.use_layout(Layout::compare);
       }},
      {"search",
       [&] {
         window.use_layout(Layout::explore);
         window.widen_side(MainWindow::usual_side);
         window.show_tab(1);
         window.explain(Metric::mfu);
       }},
      {"topology",
       [&] {
         window.views().show(window.views().topology());
         window.explain(Metric::exposed_communication);
       }},
      {"graph", [&] { window.views().show(window.views().graph()); }},
      {"lesson",
       [&] {
         window.set_baseline(nullptr);  // of another model
         window.use_layout(Layout::learn);
         LearnPanel& learn = window.views().learn();
         learn.open_lesson(2);
         learn.set_plan();
         settled();
         window.views().moves().go(3);
       }},
  };
  const auto take = [&](const Picture& picture) {
    for (const bool dark : {false, true}) {
      use_theme(dark);
      picture.prepare();
      good = good && wait_for([&] { return window.views().is_settled(); });
      for (int i = 0; i < 5; ++i) QCoreApplication::processEvents();  // charts repaint when they come to it
      const QString file = QStringLiteral("%1/%2-%3.png")
                               .arg(folder, QLatin1String(picture.name), QLatin1String(dark ? "dark" : "light"));
      if (!window.grab().save(file)) {
        std::fprintf(stderr, "error: cannot write %s\n", qPrintable(file));
        return false;
      }
    }
    return true;
  };
  for (const Picture& picture : pictures) {
    if (!take(picture)) return 3;
  }
  // A small plan is trained here.
  window.document().history().setClean();
  good = good && window.open(QStringLiteral("demo-2x2x2")) && settled();
  window.use_layout(Layout::validate);
  window.validate_panel().findChild<QPushButton*>(QStringLiteral("validate-run"))->click();
  good = good && wait_for([&] { return window.validate_panel().is_settled(); });
  if (!window.validate_panel().view().comparison()) {
    std::fprintf(stderr, "error: the plan was not trained: is the program orrery built?\n");
    good = false;
  }
  // This text takes the place of the path of this machine's calibration, which differs on each machine.
  if (!take({"validate", [&] { window.show_message(MainWindow::tr("Trained on this machine")); }})) return 3;
  window.document().history().setClean();
  if (!good) std::fprintf(stderr, "error: the window did not come to rest\n");
  return good ? 0 : 3;
}

}  // namespace orrery::gui
