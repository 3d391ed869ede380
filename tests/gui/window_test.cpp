#include <catch2/catch.hpp>

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDragEnterEvent>
#include <QFontDatabase>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBrowser>
#include <QToolButton>
#include <nlohmann/json.hpp>
#include <set>

#include "core/plan/plan_file.hpp"
#include "gui/app/main_window.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_view.hpp"
#include "gui/widgets/dimension_editor.hpp"
#include "gui/widgets/results_strip.hpp"
#include "gui/widgets/search_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_panel.hpp"
#include "gui/widgets/validate_panel.hpp"
#include "tests/gui/opened_window.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;
using namespace orrery::gui;
using gui::test::child;
using gui::test::until;

namespace {

/// The output of `orrery estimate FILE --json`.
nlohmann::json estimated(const QString& file) {
  const orrery::test::Ran ran = orrery::test::run(ORRERY_PROGRAM, "estimate " + file.toStdString() + " --json");
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
  REQUIRE(QFontDatabase::families().size() > 0);  // without fonts every picture would show boxes, and nothing would
                                                  // fail

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
  CHECK(dimension("mesh.tensor").get(window.document().run()) == static_cast<std::uint64_t>(number.value()));

  // An impossible value is answered, and the nearest one is taken.
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

  // After saving, the command line reports the same.
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

  // The step is analysed: the critical path is a table and a line, and a found operation shows what it waited for.
  TimelinePanel& timeline = window.timeline();
  REQUIRE(until([&] { return timeline.analysis() && timeline.analysis()->complete; }));
  CHECK(timeline.path().rowCount() > 1);
  auto& path_button = child<QToolButton>(timeline, "show-path");
  const QImage without = view.viewport()->grab().toImage();
  QTest::keyClick(&view, Qt::Key_C);
  CHECK(path_button.isChecked());
  CHECK(view.viewport()->grab().toImage() != without);
  auto& find = child<QLineEdit>(timeline, "find");
  QTest::keyClicks(&find, QStringLiteral("layer 1 gemm"));
  CHECK(child<QLabel>(timeline, "found-count").text().contains(QStringLiteral("found")));
  QTest::keyClick(&find, Qt::Key_Return);
  REQUIRE(window.focus().op());
  const auto first_found = window.focus().op();
  const auto place = place_of(timeline.analysis()->step->timeline, *first_found);
  REQUIRE(place);
  CHECK(slice_of(timeline.analysis()->step->timeline, *place).layer == 1);
  CHECK(timeline.dependencies().rowCount() >= 2);
  CHECK(view.rect_of(*place).width() >= 2.0);  // it can be seen
  QTest::keyClick(&find, Qt::Key_Return);
  CHECK(window.focus().op() != first_found);
  // A click on its box selects it, one beside it nothing.
  const auto now_at = place_of(timeline.analysis()->step->timeline, *window.focus().op());
  const auto wanted_op = window.focus().op();
  const QRectF box = view.rect_of(*now_at);
  QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, QPoint(400, 5));
  CHECK_FALSE(window.focus().op());
  QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, box.center().toPoint());
  CHECK(window.focus().op() == wanted_op);
  // Steps through events, and plays them.
  view.setFocus();
  QTest::keyClick(&view, Qt::Key_Escape);
  CHECK_FALSE(window.focus().op());
  QTest::keyClick(&view, Qt::Key_0);
  QTest::keyClick(&view, Qt::Key_Period);
  CHECK(window.focus().cursor() == 0);
  QTest::keyClick(&view, Qt::Key_Period);
  const auto second_event = window.focus().cursor();
  CHECK(second_event > 0);
  QTest::keyClick(&view, Qt::Key_Comma);
  CHECK(window.focus().cursor() == 0);
  auto& play = child<QToolButton>(timeline, "play");
  play.click();
  REQUIRE(until([&] { return window.focus().cursor() > second_event; }));
  play.click();
  CHECK_FALSE(timeline.is_playing());

  // The baseline beside the current plan has the figures of `orrery compare`.
  window.use_layout(Layout::compare);
  REQUIRE(until([&] { return window.compare_panel().is_settled(); }));
  {
    CompareView& compared = window.compare_panel().view();
    REQUIRE(compared.comparison());
    const QString baseline_file = folder.filePath(QStringLiteral("baseline.toml"));
    orrery::test::write(baseline_file.toStdString(), write_plan(compared.comparison()->a.prediction->of->run));
    const orrery::test::Ran ran = orrery::test::run(
        ORRERY_PROGRAM, "compare " + baseline_file.toStdString() + " " + file.toStdString() + " --json");
    INFO(ran.err);
    REQUIRE(ran.status <= 1);
    const auto json = nlohmann::json::parse(ran.out);
    CHECK(json["a"]["step_time_s"].get<double>() == compared.comparison()->figures.measured_step.base());
    CHECK(json["b"]["step_time_s"].get<double>() == compared.comparison()->figures.predicted_step.base());
    CHECK(json["b"]["compute_s"].get<double>() == compared.comparison()->figures.parts[0].predicted.base());
    CHECK(compared.differences().rowCount() > 0);
    CHECK(compared.waterfall().rowCount() > 2);
    // Both zoom as one.
    TimelineView& first = compared.first();
    first.setFocus();
    QTest::keyClick(&first, Qt::Key_W);
    CHECK(compared.second().axis().range == first.axis().range);
    CHECK(first.axis().range.length() < compared.focus().duration());
    CHECK_FALSE(window.grab().isNull());
  }
  window.use_layout(Layout::explore);

  // A search runs to its end; its best plan is taken up, and can be undone.
  window.show_tab(1);
  auto& start = child<QPushButton>(window, "search-start");
  auto& cancel = child<QPushButton>(window, "search-cancel");
  QTest::mouseClick(&start, Qt::LeftButton);
  CHECK(cancel.isEnabled());
  REQUIRE(until([&] { return !window.search().is_running(); }));
  REQUIRE(window.search_panel().plans().size() > 1);
  CHECK(window.focus().found() == window.search_panel().plans().front().id);
  auto& plans = child<QTableView>(window, "plans");
  plans.setCurrentIndex(plans.model()->index(1, 0));
  CHECK(window.focus().found() == window.search_panel().plans()[1].id);
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

  // A saved plan opens again; a wrong one gives a message and loses nothing.
  REQUIRE(window.open(file));
  REQUIRE(settled());
  CHECK(window.document().run().plan.mesh == wanted.mesh);
  CHECK_FALSE(window.open(QStringLiteral("no-such-plan")));
  CHECK(child<QLabel>(window, "problem").isVisible());
  CHECK(window.document().run().plan.mesh == wanted.mesh);

  // The command line trains a small plan, and its step is compared with the prediction; a failure is reported.
  REQUIRE(window.open(QStringLiteral("cpu-one-rank")));
  REQUIRE(settled());
  window.use_layout(Layout::validate);
  ValidatePanel& validate = window.validate_panel();
  auto& run_here = child<QPushButton>(validate, "validate-run");
  auto& message = child<QLabel>(validate, "validate-message");
  validate.process().set_program(folder.filePath(QStringLiteral("missing")));
  QTest::mouseClick(&run_here, Qt::LeftButton);
  REQUIRE(until([&] { return validate.is_settled(); }));
  CHECK(message.text().contains(QStringLiteral("cannot be started")));
  CHECK(run_here.isEnabled());
  validate.process().set_program(QStringLiteral(ORRERY_PROGRAM));
  QTest::mouseClick(&run_here, Qt::LeftButton);
  CHECK(child<QPushButton>(validate, "validate-cancel").isEnabled());
  REQUIRE(until([&] { return validate.is_settled(); }));
  INFO(message.text().toStdString());
  REQUIRE(validate.view().comparison());
  CHECK(validate.view().comparison()->has_measurement());
  CHECK(validate.view().operations().rowCount() > 3);
  CHECK(message.text().contains(QStringLiteral("measured")));
  window.use_layout(Layout::explore);

  // In dark, small and large windows nothing fails to paint.
  use_theme(true);
  for (const QSize size : {QSize(640, 480), QSize(2560, 1440)}) {
    window.resize(size);
    QCoreApplication::processEvents();
    CHECK_FALSE(window.grab().isNull());
  }

  // Everything that takes the keyboard has a name, and no shortcut is given twice.
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
