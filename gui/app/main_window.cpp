#include "gui/app/main_window.hpp"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QFileDialog>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QStatusBar>
#include <QTabWidget>
#include <QTextBrowser>
#include <QToolBar>
#include <QVBoxLayout>

#include "core/base/units_text.hpp"
#include "gui/app/plan_views.hpp"
#include "gui/app/window_tools.hpp"
#include "gui/model/basis.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/memory_panel.hpp"
#include "gui/widgets/message_label.hpp"
#include "gui/widgets/results_strip.hpp"
#include "gui/widgets/search_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_panel.hpp"
#include "gui/widgets/undo_keys.hpp"
#include "gui/widgets/validate_panel.hpp"
#include "gui/widgets/verdict_strip.hpp"
#include "gui/widgets/wheel_guard.hpp"

namespace orrery::gui {

Dialogs usual_dialogs() {
  Dialogs out;
  const QString files = QObject::tr("Plans, models, clusters (*.toml *.json)");
  out.file_to_open = [files](QWidget* parent) {
    return QFileDialog::getOpenFileName(parent, QObject::tr("Open"), {}, files);
  };
  out.traces_to_open = [](QWidget* parent) {
    return QFileDialog::getOpenFileNames(parent, QObject::tr("Import"), {}, QObject::tr("Recorded steps (*.json)"));
  };
  out.file_to_save = [](QWidget* parent, const QString& proposed) {
    return QFileDialog::getSaveFileName(parent, QObject::tr("Save plan"), proposed, QObject::tr("Plans (*.toml)"));
  };
  out.file_to_export = [](QWidget* parent, const QString& proposed) {
    return QFileDialog::getSaveFileName(parent, QObject::tr("Export view"), proposed,
                                        QObject::tr("Pictures and tables (*.png *.svg *.pdf *.csv)"));
  };
  out.may_discard = [](QWidget* parent) {
    return QMessageBox::question(parent, QObject::tr("Unsaved plan"), QObject::tr("Discard the changes to the plan?"),
                                 QMessageBox::Discard | QMessageBox::Cancel,
                                 QMessageBox::Cancel) == QMessageBox::Discard;
  };
  return out;
}

void use_theme(bool dark) { QApplication::setPalette(palette_of(dark)); }

MainWindow::MainWindow(Library library, std::filesystem::path own_calibration, unsigned cores, Dialogs dialogs)
    : dialogs_(std::move(dialogs)), document_(std::move(library), std::move(own_calibration), cores) {
  setObjectName(QStringLiteral("orrery"));
  setWindowTitle(QStringLiteral("[*]Orrery"));
  new WheelGuard(this);  // comes before any control that it has to know
  make_panels();
  make_actions();
  undo_keys_ = new UndoKeys(*this);
  tools_ = new WindowTools(*this);
  mark_soon_.setSingleShot(true);
  mark_soon_.setInterval(300);
  connect(&mark_soon_, &QTimer::timeout, this, [this] { mark_outdated(); });
  simulate_soon_.setSingleShot(true);
  simulate_soon_.setInterval(120);  // predicts at once while a slider moves, and simulates when it rests
  connect(&simulate_soon_, &QTimer::timeout, this, [this] {
    if (prediction_->complete) simulations_.request(prediction_);
  });
  connect(&document_, &PlanDocument::changed, this, [this] { document_changed(); });
  connect(&document_.history(), &QUndoStack::indexChanged, this, [this] { undo_keys_->end_typing(); });
  connect(&predictions_, &PredictionService::predicted, this,
          [this](const PredictionPointer& p) { take_prediction(p); });
  connect(&predictions_, &PredictionService::failed, this, [this](const QString& why) { prediction_failed(why); });
  connect(&simulations_, &SimulationService::simulated, this, [this](const SimulatedPointer& step) {
    if (step->prediction != prediction_) return;
    simulating_ = false;
    timeline_->set_step(step);
    memory_->set_step(step);
    views_->set_step(step);
    if (is_settled()) Q_EMIT settled();
  });
  connect(&simulations_, &SimulationService::analysed, timeline_, &TimelinePanel::set_analysis);
  connect(&simulations_, &SimulationService::failed, this, [this](const QString& why) {
    simulating_ = false;
    timeline_->set_message(why);
    memory_->set_step(nullptr);
    views_->set_step(nullptr);
    if (is_settled()) Q_EMIT settled();
  });
}

MainWindow::~MainWindow() = default;

void MainWindow::make_panels() {
  auto* centre = new QWidget(this);
  auto* column = new QVBoxLayout(centre);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  problem_ = new MessageLabel(centre);
  problem_->setObjectName(QStringLiteral("problem"));
  problem_->setWordWrap(true);
  problem_->setTextFormat(Qt::PlainText);
  problem_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  problem_->setMargin(8);
  problem_->hide();
  column->addWidget(problem_);
  // The toolbar is above everything, over the whole width.
  auto* bar = addToolBar(tr("Results"));
  bar->setObjectName(QStringLiteral("results-bar"));
  bar->setMovable(false);
  bar->toggleViewAction()->setEnabled(false);
  results_ = new ResultsStrip(bar);
  bar->addWidget(results_);
  verdict_ = new VerdictStrip(centre);
  column->addWidget(verdict_);
  tabs_ = new QTabWidget(centre);
  tabs_->setObjectName(QStringLiteral("views"));
  tabs_->setDocumentMode(true);
  timeline_ = new TimelinePanel(focus_, tabs_);
  search_panel_ = new SearchPanel(search_, focus_, tabs_);
  tabs_->addTab(timeline_, tr("&Timeline"));
  tabs_->addTab(search_panel_, tr("Sea&rch"));
  compare_ = new ComparePanel(document_, dialogs_.file_to_open, tabs_);
  tabs_->addTab(compare_, tr("&Compare"));
  validate_ = new ValidatePanel(document_, dialogs_.traces_to_open, tabs_);
  tabs_->addTab(validate_, tr("V&alidate"));
  column->addWidget(tabs_, 1);
  setCentralWidget(centre);

  const auto dock = [&](const QString& title, const QString& name, QWidget* inside, Qt::DockWidgetArea area,
                        int width) {
    auto* d = new QDockWidget(title, this);
    d->setObjectName(name);
    d->setWidget(inside);
    addDockWidget(area, d);
    resizeDocks({d}, {width}, Qt::Horizontal);
    return d;
  };
  setup_ = new SetupPanel(document_, this);
  dock(tr("Setup"), QStringLiteral("setup-dock"), setup_, Qt::LeftDockWidgetArea, 310);
  memory_ = new MemoryPanel(focus_, this);
  auto* memory = dock(tr("Memory"), QStringLiteral("memory-dock"), memory_, Qt::RightDockWidgetArea, 280);
  explanation_ = new QTextBrowser(this);
  explanation_->setObjectName(QStringLiteral("explanation"));
  explanation_->setAccessibleName(tr("Explanation of the selected figure"));
  explanation_->setFrameShape(QFrame::NoFrame);
  auto* explained =
      dock(tr("Explanation"), QStringLiteral("explanation-dock"), explanation_, Qt::RightDockWidgetArea, 280);
  resizeDocks({memory, explained}, {320, 320}, Qt::Vertical);
  views_ = new PlanViews(*this, *tabs_);
  status_ = new QLabel(this);
  statusBar()->addWidget(status_, 1);

  connect(setup_, &SetupPanel::settled, this, [this] {
    if (is_settled()) Q_EMIT settled();
  });
  connect(setup_, &SetupPanel::dropped, this, [this](const QString& file) { open(file); });
  connect(setup_, &SetupPanel::model_wished, this, [this](const QString& name) {
    Diagnostics d;
    document_.choose_model(name.toStdString(), d) ? problem_->hide() : show_problem(d);
  });
  connect(setup_, &SetupPanel::cluster_wished, this, [this](const QString& name) {
    Diagnostics d;
    document_.choose_cluster(name.toStdString(), d) ? problem_->hide() : show_problem(d);
  });
  connect(results_, &ResultsStrip::explanation_wished, this, [this](Metric m) { explain(m); });
  connect(verdict_, &VerdictStrip::wished, this, [this](const Fix& fix) {
    Diagnostics d;
    if (!document_.take(fix.run->run, QString::fromStdString(fix.change), d)) show_problem(d);
  });
  connect(search_panel_, &SearchPanel::start_wished, this, [this] {
    if (!document_.is_open()) return;
    Diagnostics d;
    if (search_.start(*document_.priced(), search_panel_->wish(), d)) {
      search_panel_->begin(*document_.priced());
    } else if (!d.empty()) {
      search_panel_->refuse(QString::fromStdString(d.list().front().message));
    }
  });
  connect(search_panel_, &SearchPanel::plan_wished, this, [this](const FoundPlan& found, const PricedRun& on) {
    document_.adopt(found.plan, on, tr("Plan of the search"));
  });
}

void MainWindow::make_actions() {
  const auto action = [this](QMenu* menu, const QString& text, const QKeySequence& keys, auto&& what) {
    QAction* a = menu->addAction(text);
    a->setShortcut(keys);
    connect(a, &QAction::triggered, this, what);
    return a;
  };
  QMenu* file = menuBar()->addMenu(tr("&File"));
  file->setObjectName(QStringLiteral("file-menu"));
  action(file, tr("&Open\u2026"), QKeySequence::Open, [this] {
    const QString name = dialogs_.file_to_open(this);
    if (!name.isEmpty()) open(name);
  });
  QMenu* examples = file->addMenu(tr("&Examples"));
  for (const std::string& name : document_.library().plans()) {
    action(examples, QString::fromStdString(name), {}, [this, name] { open(QString::fromStdString(name)); });
  }
  action(file, tr("&Save"), QKeySequence::Save, [this] { save(); });
  action(file, tr("Save &as\u2026"), QKeySequence::SaveAs, [this] { save_as(); });
  file->addSeparator();
  action(file, tr("&Quit"), QKeySequence::Quit, [this] { close(); });

  QMenu* edit = menuBar()->addMenu(tr("&Edit"));
  QAction* undo = document_.history().createUndoAction(this, tr("&Undo"));
  undo->setShortcuts(QKeySequence::Undo);
  edit->addAction(undo);
  QAction* redo = document_.history().createRedoAction(this, tr("&Redo"));
  redo->setShortcuts(QKeySequence::Redo);
  edit->addAction(redo);
  edit->addSeparator();
  action(edit, tr("Pin as &baseline"), QKeySequence(Qt::CTRL | Qt::Key_B), [this] { pin_baseline(); });
  action(edit, tr("&Forget the baseline"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_B),
         [this] { set_baseline(nullptr); });

  QMenu* view = menuBar()->addMenu(tr("&View"));
  view->setObjectName(QStringLiteral("view-menu"));
  action(view, tr("Timeline"), QKeySequence(Qt::CTRL | Qt::Key_1), [this] { show_tab(0); });
  action(view, tr("Search"), QKeySequence(Qt::CTRL | Qt::Key_2), [this] { show_tab(1); });
  action(view, tr("Compare"), QKeySequence(Qt::CTRL | Qt::Key_3), [this] { show_tab(2); });
  action(view, tr("Validate"), QKeySequence(Qt::CTRL | Qt::Key_4), [this] { show_tab(3); });
  view->addSeparator();
  QMenu* layouts = view->addMenu(tr("&Layout"));
  action(layouts, tr("&Explore"), QKeySequence(Qt::Key_F6), [this] { use_layout(Layout::explore); });
  action(layouts, tr("&Compare"), QKeySequence(Qt::Key_F7), [this] { use_layout(Layout::compare); });
  action(layouts, tr("&Validate"), QKeySequence(Qt::Key_F8), [this] { use_layout(Layout::validate); });
  action(layouts, tr("&Learn"), QKeySequence(Qt::Key_F9), [this] { use_layout(Layout::learn); });
  for (QDockWidget* d : findChildren<QDockWidget*>()) view->addAction(d->toggleViewAction());
  view->addSeparator();
  QAction* dark =
      action(view, tr("&Dark"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_D), [](bool on) { use_theme(on); });
  dark->setCheckable(true);
  dark->setChecked(is_dark(QApplication::palette()));
}

bool MainWindow::open(const QString& reference) {
  const std::string name = reference.toStdString();
  Diagnostics d;
  std::error_code failure;
  const bool example = !std::filesystem::exists(name, failure) && !is_path(name);
  auto found = example ? document_.look_at_example(name, d) : document_.look_at(name, d);
  if (!found) {
    show_problem(d);
    return false;
  }
  if (found->replaces && document_.has_changes() && !dialogs_.may_discard(this)) return false;
  document_.take(std::move(*found));
  return true;
}

void MainWindow::save() {
  if (document_.path().empty()) return save_as();
  save_to(QString::fromStdString(document_.path().string()));
}

void MainWindow::save_as() {
  if (!document_.is_open()) return;
  const std::string name = document_.run().plan.name.empty() ? "plan" : document_.run().plan.name;
  const QString file = dialogs_.file_to_save(this, QString::fromStdString(name + ".toml"));
  if (!file.isEmpty()) save_to(file);
}

void MainWindow::save_to(const QString& file) {
  QString why;
  if (document_.save(file.toStdString(), why)) {
    problem_->hide();
    statusBar()->showMessage(tr("Saved to %1").arg(file), 4000);
  } else {
    show_problem(tr("Cannot write %1: %2").arg(file, why));
  }
}

void MainWindow::document_changed() {
  problem_->hide();  // it was of what was tried before
  const PlannedRun& run = document_.run();
  const QString name = document_.path().empty() ? QString::fromStdString(run.plan.name.empty() ? "plan" : run.plan.name)
                                                : QString::fromStdString(document_.path().filename().string());
  setWindowTitle(name + QStringLiteral("[*] \u2013 Orrery"));
  setWindowModified(document_.has_changes());
  search_panel_->follow(document_.priced());
  if (asked_ && asked_ == document_.priced()) return;
  if (!asked_ && prediction_ && prediction_->of == document_.priced()) {
    return mark_outdated();  // the plan that is shown is back
  }
  asked_ = document_.priced();
  predictions_.request(asked_);
  mark_soon_.start();
}

void MainWindow::prediction_failed(const QString& why) {
  asked_.reset();
  mark_outdated();
  show_problem(why);
  Q_EMIT settled();
}

void MainWindow::mark_outdated() {
  const bool figures = prediction_ != nullptr && prediction_->of != document_.priced();
  results_->set_outdated(figures);
  verdict_->set_outdated(figures);
  for (QWidget* panel :
       {static_cast<QWidget*>(memory_), static_cast<QWidget*>(explanation_), static_cast<QWidget*>(status_)}) {
    set_greyed(*panel, figures);
  }
  const QString before = tr("For the previous plan: ");
  const QString plain = status_->text().startsWith(before) ? status_->text().mid(before.size()) : status_->text();
  status_->setText(figures ? before + plain : plain);
  const SimulatedPointer& step = timeline_->step();
  timeline_->set_outdated(step != nullptr && step->prediction->of != document_.priced());
}

void MainWindow::take_prediction(const PredictionPointer& p) {
  prediction_ = p;
  // A selected stage that the plan no longer has is deselected.
  if (focus_.stage() && *focus_.stage() >= p->run.plan.mesh.size(Axis::pipeline)) focus_.set_stage(std::nullopt);
  if (p->complete) {
    if (p->of == asked_) asked_.reset();
    simulating_ = true;
    simulate_soon_.start();
  }
  verdict_->show_prediction(p);
  memory_->show_prediction(p);
  views_->set_prediction(p);
  compare_->set_plan(p);
  validate_->set_plan(p);
  show_results();
}

void MainWindow::show_results() {
  if (!prediction_) return;
  results_->show_prediction(prediction_, baseline_);
  explain(explained_);
  const Prediction& p = *prediction_;
  const auto q = [](const std::string& text) { return QString::fromStdString(text); };
  QString text = tr("Estimated in %1; %2; software: %3")
                     .arg(q(short_text(Seconds::of(p.seconds), 2)), q(p.prices->origin), q(p.prices->software.name));
  if (baseline_) {
    text += tr("; baseline: step %1").arg(q(short_text(baseline_->report.step_time, 4)));
    const std::vector<BasisDifference> basis = basis_differences(*baseline_->of, *p.of);
    if (!basis.empty()) text += tr(" (here %1)").arg(q(text_of(basis)));
  }
  status_->setText(text);
  status_->setToolTip(text);
  if (!mark_soon_.isActive()) mark_outdated();
}

bool MainWindow::is_settled() const { return prediction_ && !asked_ && !simulating_ && setup_->is_settled(); }

void MainWindow::show_tab(int at) { tabs_->setCurrentIndex(at); }

void MainWindow::use_layout(Layout layout) {
  // Steps side by side need the width; figures and their reasons stand with the plan that is explored.
  const bool wide = layout == Layout::compare || layout == Layout::validate;
  if (wide) {
    for (QDockWidget* d : findChildren<QDockWidget*>()) d->setVisible(d->objectName() == QStringLiteral("setup-dock"));
  } else {
    findChild<QDockWidget*>(QStringLiteral("setup-dock"))->show();
    views_->show_lessons(layout == Layout::learn);
  }
  if (layout != Layout::learn) show_tab(layout == Layout::explore ? 0 : layout == Layout::compare ? 2 : 3);
}

void MainWindow::explain(Metric m) {
  explained_ = m;
  if (prediction_) explanation_->setHtml(QString::fromStdString(explanation(m, *prediction_)));
}

void MainWindow::widen_side(double share) {
  resizeDocks({findChild<QDockWidget*>(QStringLiteral("memory-dock"))}, {qRound(share * width())}, Qt::Horizontal);
}

void MainWindow::pin_baseline() { set_baseline(prediction_); }

void MainWindow::set_baseline(PredictionPointer baseline) {
  baseline_ = std::move(baseline);
  compare_->set_baseline(baseline_);
  show_results();
}

void MainWindow::show_message(const QString& text) { statusBar()->showMessage(text, 8000); }

void MainWindow::wait_until_settled() {
  QElapsedTimer timer;
  timer.start();
  while (!(is_settled() && views_->is_settled()) && timer.elapsed() < 60'000) {
    QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
  }
  QCoreApplication::processEvents();
}

void MainWindow::show_problem(const QString& text) {
  problem_->tell(text, MessageLabel::Tone::bad);
  problem_->show();
}

void MainWindow::show_problem(const Diagnostics& d) {
  show_problem(QString::fromStdString(orrery::render(d)).trimmed());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (document_.has_changes()) {
    if (!dialogs_.may_discard(this)) return event->ignore();
    tools_->discard_changes();
  }
  event->accept();
}

}  // namespace orrery::gui
