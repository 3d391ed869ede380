#include "gui/app/window_tools.hpp"

#include <QAction>
#include <QClipboard>
#include <QDir>
#include <QDockWidget>
#include <QGuiApplication>
#include <QMenu>
#include <QMenuBar>
#include <QSaveFile>
#include <QTabWidget>
#include <QTableView>
#include <algorithm>

#include "core/plan/plan_file.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/plan_views.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/export_view.hpp"
#include "gui/widgets/moves_panel.hpp"
#include "gui/widgets/plan_graph_panel.hpp"
#include "gui/widgets/topology_panel.hpp"

namespace orrery::gui {
namespace {

QString plain(QString text) { return text.remove(u'&'); }

}  // namespace

WindowTools::WindowTools(MainWindow& window) : QObject(&window), window_(window) {
  // Every page in the middle and every panel beside it can be exported, also those that other code adds.
  auto* tabs = window.findChild<QTabWidget*>(QStringLiteral("views"));
  for (int i = 0; i < tabs->count(); ++i) {
    QWidget* page = tabs->widget(i);
    const QString name = plain(tabs->tabText(i));
    views_.push_back({name, name.toLower().replace(u' ', u'-'), [tabs, page]() -> QWidget& {
                        tabs->setCurrentWidget(page);
                        return *page;
                      }});
  }
  for (QDockWidget* dock : window.findChildren<QDockWidget*>()) {
    const QString name = dock->windowTitle();
    views_.push_back({name, dock->objectName().remove(QStringLiteral("-dock")), [dock]() -> QWidget& {
                        dock->show();
                        dock->raise();
                        return *dock->widget();
                      }});
  }
  views_.push_back({tr("Results"), QStringLiteral("results"),
                    [this]() -> QWidget& { return *window_.findChild<QWidget*>(QStringLiteral("results")); }});
  views_.push_back({tr("Whole window"), QStringLiteral("window"), [this]() -> QWidget& { return window_; }});

  const auto menu_named = [&](const char* name) { return window.findChild<QMenu*>(QLatin1String(name)); };
  QMenu* file = menu_named("file-menu");
  auto* exports = new QMenu(tr("&Export"), file);
  // The entries go before the last separator and Quit.
  const QList<QAction*> entries = file->actions();
  file->insertMenu(entries[entries.size() - 2], exports);
  add_export(*exports);
  QAction* command = file->addAction(tr("Copy &command line"));
  file->removeAction(command);
  file->insertAction(entries[entries.size() - 2], command);
  connect(command, &QAction::triggered, this, [this] {
    const std::string path = window_.document().path().string();
    if (path.empty() || window_.document().has_changes()) {
      window_.show_message(tr("Save the plan first: the command line reads its file."));
      return;
    }
    const QString quoted = QString::fromStdString(path).replace(QStringLiteral("'"), QStringLiteral("'\\''"));
    QString command_line = QStringLiteral("orrery estimate '%1'").arg(quoted);
    const std::string& software = window_.document().settings().software;
    if (software != "auto") command_line += QStringLiteral(" --software ") + QString::fromStdString(software);
    QGuiApplication::clipboard()->setText(command_line);
    window_.show_message(tr("Copied: %1").arg(command_line));
  });

  QMenu* view = menu_named("view-menu");
  const auto page = [&](const QString& text, Qt::Key key, QWidget& panel) {
    QAction* a = view->addAction(text);
    a->setShortcut(QKeySequence(Qt::CTRL | key));
    connect(a, &QAction::triggered, this, [this, &panel] { window_.views().show(panel); });
  };
  page(tr("Topology"), Qt::Key_5, window.views().topology());
  page(tr("Plan graph"), Qt::Key_6, window.views().graph());
  page(tr("Moves"), Qt::Key_7, window.views().moves());
  auto* help = window.menuBar()->addMenu(tr("&Help"));
  QAction* commands = help->addAction(tr("&Commands\u2026"));
  commands->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_K));
  connect(commands, &QAction::triggered, this, [this] { show_palette(); });
  QAction* keys = help->addAction(tr("&Keys\u2026"));
  keys->setShortcut(QKeySequence(Qt::Key_F1));
  connect(keys, &QAction::triggered, this, [this] { show_keys(); });
  QAction* lessons = help->addAction(tr("&Lessons"));
  connect(lessons, &QAction::triggered, this, [this] { window_.use_layout(Layout::learn); });

  keep_soon_.setSingleShot(true);
  keep_soon_.setInterval(500);
  connect(&keep_soon_, &QTimer::timeout, this, [this] { keep(); });
}

void WindowTools::add_export(QMenu& menu) {
  for (const View& view : views_) {
    QAction* a = menu.addAction(view.name + QStringLiteral("\u2026"));
    connect(a, &QAction::triggered, this, [this, &view] { export_one(view); });
  }
}

void WindowTools::export_one(const View& view) {
  QWidget& widget = view.show();
  const QString file = window_.dialogs().file_to_export(&window_, view.file + QStringLiteral(".png"));
  if (file.isEmpty()) return;
  QString why;
  if (export_view(widget, file, why)) {
    window_.show_message(tr("Saved to %1").arg(file));
  } else {
    window_.show_problem(tr("Cannot export to %1: %2").arg(file, why));
  }
}

bool WindowTools::export_all(const QString& folder, QString& why) {
  if (!QDir().mkpath(folder)) {
    why = tr("cannot make the folder %1").arg(folder);
    return false;
  }
  for (const View& view : views_) {
    QWidget& widget = view.show();
    window_.wait_until_settled();
    for (const QString& ending : export_endings()) {
      // A view without tables, or with empty ones, has no .csv.
      const QList<QTableView*> tables = widget.findChildren<QTableView*>();
      const bool any = std::any_of(tables.begin(), tables.end(), [](const QTableView* t) {
        return t->model() != nullptr && t->model()->columnCount() > 0;
      });
      if (ending == QStringLiteral("csv") && !any) continue;
      if (!export_view(widget, QStringLiteral("%1/%2.%3").arg(folder, view.file, ending), why)) {
        why = QStringLiteral("%1.%2: %3").arg(view.file, ending, why);
        return false;
      }
    }
  }
  QSaveFile plan(QDir(folder).filePath(QStringLiteral("plan.toml")));
  const QByteArray text = QByteArray::fromStdString(write_plan(window_.document().run()));
  if (plan.open(QIODevice::WriteOnly) && plan.write(text) == text.size() && plan.commit()) return true;
  why = plan.errorString();
  return false;
}

void WindowTools::keep_session(const std::filesystem::path& folder, bool take_up) {
  session_ = std::make_unique<Session>(folder);
  if (!session_->is_mine()) {
    window_.show_message(tr("Another window keeps the session: this one's is not kept."));
    return;
  }
  const auto kept = session_->kept();
  if (kept && take_up && restore(*kept)) {
    if (!kept->ended) window_.show_message(tr("Restored: the program did not end as it should the last time."));
  } else if (kept) {
    if (const auto aside = session_->set_aside(*kept)) {
      window_.show_message(
          tr("What was not saved the last time is in %1").arg(QString::fromStdString(aside->string())));
    }
  }
  connect(&window_.document(), &PlanDocument::changed, this, [this] { keep_soon_.start(); });
  connect(&window_.document().history(), &QUndoStack::cleanChanged, this, [this] { keep_soon_.start(); });
}

bool WindowTools::restore(const Session::Kept& kept) {
  Diagnostics d;
  window_.document().set_settings(kept.settings);
  if (!window_.document().restore(kept.plan, kept.path, kept.as_saved, d)) {
    window_.show_problem(d);
    return false;
  }
  if (kept.baseline) {
    // A baseline that cannot be read is no reason to lose the plan.
    if (auto run = window_.document().read(*kept.baseline, d)) {
      if (auto priced = window_.document().price(std::move(*run), kept.baseline_settings, d)) {
        window_.set_baseline(std::make_shared<const Prediction>(predict(std::move(priced))));
      }
    }
  }
  window_.restoreGeometry(kept.place.geometry);
  window_.restoreState(kept.place.panels);
  for (const View& view : views_) {
    if (view.file == kept.place.view) static_cast<void>(view.show());
  }
  if (kept.place.lessons) window_.views().show_lessons(true);
  return true;
}

void WindowTools::keep() {
  if (!session_) return;
  Session::Place place{{}, window_.saveGeometry(), window_.saveState(), window_.views().shows_lessons()};
  const auto* tabs = window_.findChild<QTabWidget*>(QStringLiteral("views"));
  const auto at = static_cast<std::size_t>(std::max(0, tabs->currentIndex()));
  place.view = views_[at].file;  // pages come first
  QString why;
  const PredictionPointer& baseline = window_.baseline();
  if (!session_->keep(window_.document(), baseline ? baseline->of.get() : nullptr, place, why)) {
    window_.show_message(tr("The session cannot be kept: %1").arg(why));
  }
}

void WindowTools::discard_changes() {
  keep_soon_.stop();
  if (window_.document().discard_changes()) return keep();
  if (session_) session_->forget();
  session_.reset();
}

void WindowTools::end_session() {
  if (!session_) return;
  keep();
  session_->end();
}

void WindowTools::show_palette() {
  if (palette_ == nullptr) palette_ = new CommandPalette(window_);
  palette_->open();
}

void WindowTools::show_keys() {
  auto* sheet = new ShortcutSheet(window_);
  sheet->setAttribute(Qt::WA_DeleteOnClose);
  sheet->open();
}

}  // namespace orrery::gui
