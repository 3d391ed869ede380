#include <catch2/catch.hpp>

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDragEnterEvent>
#include <QFontDatabase>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <nlohmann/json.hpp>
#include <set>

#include "gui/app/main_window.hpp"
#include "gui/widgets/dimension_editor.hpp"
#include "gui/widgets/results_strip.hpp"
#include "gui/widgets/search_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_panel.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

template <class Holds>
bool until(Holds&& holds, int milliseconds = 120'000) {
  QElapsedTimer timer;
  timer.start();
  while (!holds() && timer.elapsed() < milliseconds) QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
  QCoreApplication::processEvents();
  return holds();
}

template <class Widget>
Widget& child(QObject& of, const char* name) {
  auto* found = of.findChild<Widget*>(QLatin1String(name));
  INFO(name);
  REQUIRE(found != nullptr);
  return *found;
}

/// What `orrery estimate FILE --json` says.
nlohmann::json estimated(const QString& file) {
  const test::Ran ran = test::run(ORRERY_PROGRAM, "estimate " + file.toStdString() + " --json");
  INFO(ran.err);
  REQUIRE(ran.status <= 1);  // 1: does not fit
  return nlohmann::json::parse(ran.out);
}

void same_as_command_line(const MainWindow& window, const QString& file) {
  const nlohmann::json json = estimated(file);
  const Report& r = window.prediction()->report;
  CHECK(json["step_time_s"].get<double>() == r.step_time.base());
  CHECK(json["tokens_per_s"].get<double>() == r.tokens_per_s);
  CHECK(json["model_flops_utilization"].get<double>() == r.model_flops_utilization);
  CHECK(json["peak_memory_bytes"].get<std::uint64_t>() == r.peak_memory_bytes);
  CHECK(json["bubble_fraction"].get<double>() == r.bubble_fraction);
  CHECK(json["exposed_communication_s"].get<double>() == r.exposed_communication.base());
  CHECK(json["cost_per_step"].get<double>() == r.cost_per_step);
}

}  // namespace

TEST_CASE("a plan through the window: drop, change, compare, undo, search, cancel, save, reopen", "[gui]") {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  int count = 1;
  char name[] = "gui_window";
  char* values[] = {name, nullptr};
  const QApplication app(count, values);
  QApplication::setStyle(QStringLiteral("Fusion"));
  use_theme(false);
  REQUIRE(QFontDatabase::families().size() > 0);  // without fonts every picture is of boxes, and nothing fails

  const QTemporaryDir folder;
  const QString file = folder.filePath(QStringLiteral("plan.toml"));
  Dialogs answers;
  answers.file_to_open = [&](QWidget*) { return file; };
  answers.file_to_save = [&](QWidget*, const QString&) { return file; };
  answers.may_discard = [](QWidget*) { return true; };
  const std::filesystem::path data = std::filesystem::path(ORRERY_SOURCE_DIR) / "models";
  MainWindow window(Library(data), {}, std::thread::hardware_concurrency(), answers);
  window.resize(1280, 800);
  REQUIRE(window.open(QStringLiteral("gpt2-1.5b-dgx-a100")));
  window.show();
  const auto settled = [&] { return until([&] { return window.is_settled(); }); };
  REQUIRE(settled());
  CHECK(window.width() == 1280);  // panels ask for no more than that
  CHECK(window.height() == 800);

  auto& setup = child<SetupPanel>(window, "setup");
  auto& answer = child<QLabel>(setup, "answer");
  {  // A config.json is dropped on the panel.
    QMimeData mime;
    mime.setUrls({QUrl::fromLocalFile(QString::fromStdString((data / "hf/bert-base/config.json").string()))});
    QDragEnterEvent enter(QPoint(20, 20), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&setup, &enter);
    CHECK(enter.isAccepted());
    QDropEvent drop(QPointF(20, 20), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&setup, &drop);
    REQUIRE(settled());
    CHECK(window.document().run().model.hidden == 768);
    CHECK(child<QComboBox>(setup, "model").currentText() == QStringLiteral("bert-base"));
  }
  window.pin_baseline();

  // A slider goes one legal value up; slider and number agree.
  auto& tensor = child<DimensionEditor>(setup, "mesh.tensor");
  auto& slider = *tensor.findChild<QSlider*>();
  auto& number = *tensor.findChild<QSpinBox*>();
  const int before = number.value();
  QTest::keyClick(&slider, Qt::Key_Right);
  REQUIRE(settled());
  CHECK(number.value() > before);
  CHECK(value_of(window.document().run(), Dimension::tensor) == static_cast<std::uint64_t>(number.value()));

  // What cannot be is answered, and what is nearest is taken.
  number.setValue(3);
  REQUIRE(settled());
  CHECK((number.value() == 2 || number.value() == 4));
  CHECK(answer.text().contains(QStringLiteral("Nearest")));

  QUndoStack& history = window.document().history();
  const int steps = history.count();
  CHECK(steps >= 2);
  history.undo();
  REQUIRE(settled());
  const int here = number.value();

  // Every figure can be explained.
  auto& explanation = child<QTextBrowser>(window, "explanation");
  std::set<QString> texts;
  for (std::size_t m = 0; m < metric_count; ++m) {
    QTest::mouseClick(&child<MetricCard>(window, ("metric-" + std::to_string(m)).c_str()), Qt::LeftButton);
    texts.insert(explanation.toPlainText());
  }
  CHECK(texts.size() == metric_count);

  // Saved, the command line says the same of it.
  window.save();
  CHECK(history.isClean());
  same_as_command_line(window, file);

  // The timeline follows keys and drags; all views follow one selection.
  TimelineView& view = window.timeline().view();
  CHECK(window.focus().visible() == TimeRange{0, window.focus().duration()});
  view.setFocus();
  QTest::keyClick(&view, Qt::Key_W);
  CHECK(window.focus().visible().length() < window.focus().duration());
  const QPoint from(300, 60), to(420, 60);
  QTest::mousePress(view.viewport(), Qt::LeftButton, {}, from);
  QMouseEvent move(QEvent::MouseMove, to, view.viewport()->mapToGlobal(to), Qt::NoButton, Qt::LeftButton, {});
  QCoreApplication::sendEvent(view.viewport(), &move);
  QTest::mouseRelease(view.viewport(), Qt::LeftButton, {}, to);
  REQUIRE(window.focus().selected());
  const TimeAxis axis = view.axis();
  CHECK(axis.x_of(window.focus().selected()->end) - axis.x_of(window.focus().selected()->start) ==
        Approx(120).margin(1));
  CHECK(window.timeline().statistics().rowCount() > 0);
  QTest::keyClick(&view, Qt::Key_Escape);
  CHECK_FALSE(window.focus().selected());
  QTest::keyClick(&view, Qt::Key_0);
  CHECK(window.focus().visible() == TimeRange{0, window.focus().duration()});
  CHECK_FALSE(view.viewport()->grab().isNull());

  // A search runs to its end; its best plan is taken up, and can be undone.
  window.show_tab(1);
  auto& start = child<QPushButton>(window, "search-start");
  auto& cancel = child<QPushButton>(window, "search-cancel");
  QTest::mouseClick(&start, Qt::LeftButton);
  CHECK(cancel.isEnabled());
  REQUIRE(until([&] { return !window.search().is_running(); }));
  REQUIRE(window.search_panel().plans().size() > 1);
  CHECK(window.focus().found() == window.search_panel().plans().front().number);
  auto& plans = child<QTableView>(window, "plans");
  plans.setCurrentIndex(plans.model()->index(1, 0));
  CHECK(window.focus().found() == window.search_panel().plans()[1].number);
  const Plan wanted = window.search_panel().plans()[1].plan;
  QTest::mouseClick(&child<QPushButton>(window, "search-use"), Qt::LeftButton);
  REQUIRE(settled());
  CHECK(window.document().run().plan.mesh == wanted.mesh);
  CHECK(window.prediction()->report.step_time == window.search_panel().plans()[1].report.step_time);
  window.save();
  same_as_command_line(window, file);
  history.undo();
  REQUIRE(settled());
  CHECK(number.value() == here);

  // Another search is cancelled.
  QTest::mouseClick(&start, Qt::LeftButton);
  QTest::mouseClick(&cancel, Qt::LeftButton);
  REQUIRE(until([&] { return !window.search().is_running(); }));
  CHECK(start.isEnabled());

  // What was saved opens again; what is wrong says so and loses nothing.
  REQUIRE(window.open(file));
  REQUIRE(settled());
  CHECK(window.document().run().plan.mesh == wanted.mesh);
  CHECK_FALSE(window.open(QStringLiteral("no-such-plan")));
  CHECK(child<QLabel>(window, "problem").isVisible());
  CHECK(window.document().run().plan.mesh == wanted.mesh);

  // Dark, small, and large: nothing fails to paint.
  use_theme(true);
  for (const QSize size : {QSize(640, 480), QSize(2560, 1440)}) {
    window.resize(size);
    QCoreApplication::processEvents();
    CHECK_FALSE(window.grab().isNull());
  }

  // Everything that takes the keyboard says what it is, and shortcuts are not given twice.
  for (const QWidget* w : window.findChildren<QWidget*>()) {
    const bool field = qobject_cast<const QSlider*>(w) != nullptr || qobject_cast<const QSpinBox*>(w) != nullptr ||
                       qobject_cast<const QTableView*>(w) != nullptr ||
                       qobject_cast<const QAbstractButton*>(w) != nullptr;
    if (!field || w->focusPolicy() == Qt::NoFocus || !w->isVisibleTo(&window)) continue;
    const auto* button = qobject_cast<const QAbstractButton*>(w);
    const QList<QLabel*> labels = window.findChildren<QLabel*>();
    const bool labelled = std::any_of(labels.begin(), labels.end(), [&](const QLabel* l) { return l->buddy() == w; });
    CAPTURE(w->metaObject()->className(), w->objectName().toStdString());
    CHECK((labelled || !w->accessibleName().isEmpty() || (button != nullptr && !button->text().isEmpty()) ||
           qobject_cast<const QTableView*>(w->parent()) != nullptr));
  }
  std::set<QString> shortcuts;
  for (const QAction* a : window.findChildren<QAction*>()) {
    if (a->shortcut().isEmpty()) continue;
    CAPTURE(a->text().toStdString());
    CHECK(shortcuts.insert(a->shortcut().toString()).second);
  }
}
