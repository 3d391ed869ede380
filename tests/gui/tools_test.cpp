#include <catch2/catch.hpp>

#include <QAbstractButton>
#include <QAbstractItemModelTester>
#include <QAccessible>
#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDir>
#include <QDockWidget>
#include <QDoubleSpinBox>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QRadioButton>
#include <QSlider>
#include <QStandardPaths>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <set>

#include "core/plan/plan_file.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/plan_views.hpp"
#include "gui/app/window_tools.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/export_view.hpp"
#include "gui/widgets/fabric_view.hpp"
#include "gui/widgets/graph_view.hpp"
#include "gui/widgets/learn_panel.hpp"
#include "gui/widgets/moves_panel.hpp"
#include "gui/widgets/plan_graph_panel.hpp"
#include "gui/widgets/topology_panel.hpp"
#include "tests/gui/opened_window.hpp"

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

QByteArray contents(const QString& name) {
  QFile in(name);
  REQUIRE(in.open(QIODevice::ReadOnly));
  return in.readAll();
}

/// Counts boxes that are wholly visible; each of them must have text in it.
int readable_boxes(GraphView& view) {
  const QImage picture = view.grab().toImage();
  const qreal ratio = picture.devicePixelRatio();
  int seen = 0;
  for (const GraphLayout::Node& n : view.graph().nodes) {
    const QRectF box = view.box_of(n).adjusted(4, 4, -4, -4);
    if (!QRectF(view.rect()).contains(box)) continue;
    const QRect inside = QRectF(box.topLeft() * ratio, box.size() * ratio).toRect();
    const QColor paper = picture.pixelColor(inside.topLeft());
    int written = 0;
    for (int y = inside.top(); y <= inside.bottom(); ++y) {
      for (int x = inside.left(); x <= inside.right(); ++x) {
        written += std::abs(picture.pixelColor(x, y).lightness() - paper.lightness()) > 60 ? 1 : 0;
      }
    }
    CAPTURE(n.name, n.label, box.height());
    CHECK(written > 40);
    CHECK(box.height() > 15.0);  // lines of letters that can be read
    ++seen;
  }
  return seen;
}

QTableView& table_in(QWidget& panel, const char* name) { return child<QTableView>(panel, name); }

}  // namespace

TEST_CASE("every step of every lesson sets its plan in the window and is judged there", "[gui]") {
  Opened opened;
  MainWindow& window = *opened.window;
  LearnPanel& learn = window.views().learn();
  window.views().show_lessons(true);
  auto& problem = child<QLabel>(window, "problem");
  auto& verdict = child<QLabel>(learn, "lesson-verdict");
  std::size_t right = 0;
  for (std::size_t l = 0; l < learn.lessons().size(); ++l) {
    for (std::size_t s = 0; s < learn.lessons()[l].steps.size(); ++s) {
      learn.open_lesson(l, s);
      CAPTURE(learn.lessons()[l].name, s);
      learn.set_plan();
      REQUIRE(until([&] { return window.prediction() && window.prediction()->of == window.document().priced(); }));
      CHECK_FALSE(problem.isVisible());
      const auto& question = learn.lessons()[l].steps[s].question;
      if (!question) continue;
      if (question->kind == LessonQuestion::Kind::which) {
        learn.check();
        CHECK_FALSE(learn.answered_right());  // nothing is chosen yet
        const auto options = learn.findChildren<QRadioButton*>();
        REQUIRE(options.size() == static_cast<qsizetype>(question->options.size()));
        int accepted = 0;
        for (QRadioButton* option : options) {
          option->setChecked(true);
          learn.check();
          accepted += learn.answered_right() ? 1 : 0;
        }
        CHECK(accepted == 1);
        right += static_cast<std::size_t>(accepted);
      } else if (question->kind == LessonQuestion::Kind::reach) {
        learn.check();
        CHECK_FALSE(learn.answered_right());
        CHECK_FALSE(verdict.text().isEmpty());
        child<QPushButton>(learn, "lesson-show").click();
        learn.check();
        CHECK(learn.answered_right());
        right += learn.answered_right() ? 1 : 0;
      } else {
        auto& number = child<QDoubleSpinBox>(learn, "lesson-number");
        number.setValue(0.0);
        learn.check();
        CHECK_FALSE(learn.answered_right());
        // Halving finds the price, because the panel says whether it is more or less.
        double low = 0.0, high = 1e6;
        for (int i = 0; i < 60 && !learn.answered_right(); ++i) {
          number.setValue((low + high) / 2);
          learn.check();
          (verdict.text().contains(QStringLiteral("less")) ? high : low) = (low + high) / 2;
        }
        CHECK(learn.answered_right());
        right += learn.answered_right() ? 1 : 0;
      }
    }
  }
  CHECK(right >= 20);
  // Changes by lessons can be undone.
  CHECK(window.document().history().canUndo());
}

TEST_CASE("axes change places by the list of their order, and undo puts them back", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  TopologyPanel& topology = window.views().topology();
  window.views().show(topology);
  REQUIRE(opened.settled());
  const QAbstractItemModelTester tester(table_in(topology, "hot-links").model(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  CHECK(topology.table().rowCount() > 0);
  const std::vector<MeshAxis> before = window.document().run().plan.mesh.axes;
  REQUIRE(before.size() >= 3);
  auto& order = child<QListWidget>(topology, "topology-order");
  REQUIRE(order.count() == static_cast<int>(before.size()));
  const QString first = order.item(0)->text();
  order.setFocus();
  order.setCurrentRow(0);
  QTest::keyClick(&order, Qt::Key_Right, Qt::AltModifier);
  REQUIRE(opened.settled());
  CHECK(order.item(1)->text() == first);
  CHECK(window.document().run().plan.mesh.axes[1] == before[0]);
  CHECK(window.document().run().plan.mesh.axes[0] == before[1]);
  window.document().history().undo();
  REQUIRE(opened.settled());
  CHECK(window.document().run().plan.mesh.axes == before);
  CHECK(order.item(0)->text() == first);

  // A device is dragged on another one.
  auto& fabric = child<FabricView>(topology, "fabric");
  const QPoint from = fabric.cell_rect(0, 2).center().toPoint(), to = fabric.cell_rect(0, 9).center().toPoint();
  QTest::mousePress(&fabric, Qt::LeftButton, {}, from);
  QTest::mouseMove(&fabric, to);
  QTest::mouseRelease(&fabric, Qt::LeftButton, {}, to);
  REQUIRE(opened.settled());
  REQUIRE(window.document().run().plan.placement.size() == 64);
  CHECK(window.document().run().plan.placement[2] == 9);
  CHECK(window.document().run().plan.placement[9] == 2);
  window.document().history().undo();
  REQUIRE(opened.settled());
  CHECK(window.document().run().plan.placement.empty());

  // The same works by keyboard, from the device in hand to its neighbour.
  fabric.setFocus();
  const QPoint origin = fabric.cell_rect(0, 0).center().toPoint();
  QTest::mouseClick(&fabric, Qt::LeftButton, {}, origin);
  for (const int key : {Qt::Key_Space, Qt::Key_Right, Qt::Key_Escape, Qt::Key_Left})
    QTest::keyClick(&fabric, Qt::Key(key));
  REQUIRE(opened.settled());
  CHECK(window.document().run().plan.placement.empty());  // let go
  for (const int key : {Qt::Key_Space, Qt::Key_Right, Qt::Key_Space}) QTest::keyClick(&fabric, Qt::Key(key));
  REQUIRE(opened.settled());
  REQUIRE(window.document().run().plan.placement.size() == 64);
  CHECK(window.document().run().plan.placement[0] == 1);
  CHECK(window.document().run().plan.placement[1] == 0);
  window.document().history().undo();
  REQUIRE(opened.settled());

  // Shows the instant of the timeline's cursor, then a range: the traffic in it.
  auto& load = child<QComboBox>(topology, "topology-load");
  const QVariant whole = topology.table().index(0, 1).data();
  child<QSlider>(topology, "topology-time").setValue(200);
  REQUIRE(window.focus().cursor().has_value());
  CHECK(load.currentIndex() == 2);
  REQUIRE(opened.settled());
  CHECK(topology.table().rowCount() > 0);
  CHECK(topology.table().index(0, 1).data() != whole);
  window.focus().set_cursor(window.focus().duration() / 4);
  CHECK(child<QSlider>(topology, "topology-time").value() == 100);
  window.focus().select(TimeRange{0, window.focus().duration() / 2});
  load.setCurrentIndex(1);
  Q_EMIT load.activated(1);
  REQUIRE(opened.settled());
  CHECK(topology.table().rowCount() > 0);
  for (int axis = 0; axis < child<QComboBox>(topology, "topology-axis").count(); ++axis) {
    child<QComboBox>(topology, "topology-axis").setCurrentIndex(axis);
    CHECK_FALSE(topology.grab().isNull());
  }
}

TEST_CASE("no box of the plan's graph is empty, and stages stand below each other in their order", "[gui]") {
  if (QStandardPaths::findExecutable(QStringLiteral("dot")).isEmpty()) return;
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  PlanGraphPanel& panel = window.views().graph();
  window.views().show(panel);
  auto& view = child<GraphView>(panel, "plan-graph");
  // The best plan of the example has stages of unlike lengths, so no node stands for two stages; 16 stages are many.
  const std::vector<std::uint32_t> best{18, 21, 21, 20};
  std::vector<std::uint32_t> many(16, 5);
  for (std::size_t i = 0; i < many.size(); i += 2) --many[i], ++many[i + 1];
  for (const auto& layers : {best, many}) {
    PlannedRun run = window.document().run();
    run.plan.mesh = Mesh{{{Axis::pipeline, static_cast<std::uint32_t>(layers.size())},
                          {Axis::data, static_cast<std::uint32_t>(16 / layers.size())},
                          {Axis::tensor, 4}}};
    run.plan.placement.clear();
    run.plan.schedule = ScheduleName::one_f_one_b;
    run.plan.chunks = 1;
    run.plan.stage_layers = layers;
    run.plan.recompute_layers.reset();
    run.plan.microbatch_size = 1;
    Diagnostics d;
    const bool good = window.document().take(run, QStringLiteral("stages"), d);
    INFO(render(d));
    REQUIRE(good);
    REQUIRE(opened.settled());
    CAPTURE(layers.size());
    const GraphLayout& graph = view.graph();
    double above = -1.0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const GraphLayout::Node& n) { return n.name == "s" + std::to_string(s); });
      if (at == graph.nodes.end()) break;  // the stages before it stand for it
      CHECK(at->y > above);
      above = at->y;
    }
    CHECK(readable_boxes(view) >= 4);
    view.grab().save(QStringLiteral("graph-%1.png").arg(layers.size()));  // to look at
    // Every stage but the last sends to the one below it.
    for (std::size_t s = 0; s + 1 < graph.nodes.size(); ++s) {
      const std::string from = "s" + std::to_string(s), to = "s" + std::to_string(s + 1);
      const auto is_node = [&](const std::string& name) {
        return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& n) { return n.name == name; });
      };
      if (!is_node(to)) break;
      CHECK(std::any_of(graph.edges.begin(), graph.edges.end(),
                        [&](const GraphLayout::Edge& e) { return e.from == from && e.to == to && !e.label.empty(); }));
    }
  }
}

TEST_CASE("the plan's graph is laid out by Graphviz, with the table beside it", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  PlanGraphPanel& panel = opened.window->views().graph();
  opened.window->views().show(panel);
  REQUIRE(opened.settled());
  const QAbstractItemModelTester tester(table_in(panel, "plan-graph-table").model(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  CHECK(panel.table().rowCount() > 0);
  auto& view = child<GraphView>(panel, "plan-graph");
  if (QStandardPaths::findExecutable(QStringLiteral("dot")).isEmpty()) return;  // then there is a message
  CHECK(view.graph().nodes.size() >= 4);
  CHECK(view.graph().width > 0.0);
  CHECK(readable_boxes(view) >= 4);
  // From stage to stage by keyboard; all views follow.
  QTest::keyClick(&view, Qt::Key_Right);
  const auto stage = opened.window->focus().stage();
  REQUIRE(stage.has_value());
  QTest::keyClick(&view, Qt::Key_Right);
  CHECK(opened.window->focus().stage() != stage);
  QTest::keyClick(&view, Qt::Key_Left);
  CHECK(opened.window->focus().stage() == stage);
}

TEST_CASE("moves are stepped through by buttons and played", "[gui]") {
  Opened opened;
  MovesPanel& moves = opened.window->views().moves();
  opened.window->views().show(moves);
  const QAbstractItemModelTester tester(table_in(moves, "moves-table").model(),
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  REQUIRE(moves.table().rowCount() > 2);
  const QString first = child<QLabel>(moves, "moves-text").text();
  child<QAbstractButton>(moves, "moves-on").click();
  CHECK(child<QLabel>(moves, "moves-text").text() != first);
  child<QAbstractButton>(moves, "moves-back").click();
  CHECK(child<QLabel>(moves, "moves-text").text() == first);
  child<QAbstractButton>(moves, "moves-play").click();
  CHECK(until([&] { return child<QLabel>(moves, "moves-text").text() != first; }, 20'000));
  child<QAbstractButton>(moves, "moves-play").click();
  auto& table = table_in(moves, "moves-table");
  table.selectRow(2);
  CHECK(child<QLabel>(moves, "moves-text").text().startsWith(QStringLiteral("3 ")));
}

TEST_CASE("commands are found by parts of their names, and every key is on the sheet", "[gui]") {
  Opened opened;
  MainWindow& window = *opened.window;
  window.tools().show_palette();
  auto& palette = child<CommandPalette>(window, "command-palette");
  auto& words = child<QLineEdit>(palette, "command-words");
  words.setText(QStringLiteral("edit pin base"));
  QTest::keyClick(&words, Qt::Key_Return);
  CHECK_FALSE(palette.isVisible());
  CHECK(window.baseline() == window.prediction());

  ShortcutSheet sheet(window);
  const auto* table = sheet.findChild<QTableView*>();
  REQUIRE(table != nullptr);
  std::set<QString> keys;
  for (int row = 0; row < table->model()->rowCount(); ++row) {
    keys.insert(table->model()->index(row, 1).data().toString());
  }
  std::set<QString> commands;
  for (const QAction* a : listed_actions(window)) {
    CAPTURE(full_name(*a).toStdString());
    CHECK(commands.insert(full_name(*a)).second);
    if (!a->shortcut().isEmpty()) CHECK(keys.contains(a->shortcut().toString(QKeySequence::NativeText)));
  }
  CHECK(commands.size() > 15);
}

TEST_CASE("every view is written as a picture, in lines and as a table", "[gui]") {
  Opened opened;
  MainWindow& window = *opened.window;
  const QTemporaryDir folder;
  QString why;
  const bool written = window.tools().export_all(folder.path(), why);
  INFO(why.toStdString());
  REQUIRE(written);
  CHECK(window.tools().views().size() >= 8);
  for (const WindowTools::View& view : window.tools().views()) {
    CAPTURE(view.file.toStdString());
    const QString name = folder.filePath(view.file);
    CHECK(contents(name + QStringLiteral(".png")).startsWith("\x89PNG"));
    CHECK(contents(name + QStringLiteral(".svg")).contains("<svg"));
    CHECK(contents(name + QStringLiteral(".pdf")).startsWith("%PDF"));
  }
  // The exported table has what the model has, and the plan is one that the command line reads.
  CHECK(contents(folder.filePath(QStringLiteral("topology.csv"))).startsWith("Link,"));
  CHECK(contents(folder.filePath(QStringLiteral("topology.csv"))) ==
        csv_of(window.views().topology().table()).toUtf8());
  Diagnostics d;
  const auto plan = window.document().read(folder.filePath(QStringLiteral("plan.toml")).toStdString(), d);
  REQUIRE(plan);
  CHECK(plan->plan == window.document().run().plan);

  auto& topology = static_cast<QWidget&>(window.views().topology());
  CHECK_FALSE(export_view(topology, QStringLiteral("/nowhere/at/all.png"), why));
  CHECK_FALSE(why.isEmpty());
  CHECK_FALSE(export_view(topology, folder.filePath(QStringLiteral("x.bmp")), why));
  CHECK(why.contains(QStringLiteral("bmp")));
  QLabel plain(QStringLiteral("no table"));
  plain.resize(50, 20);
  CHECK_FALSE(export_view(plain, folder.filePath(QStringLiteral("x.csv")), why));
  CHECK_FALSE(QFile::exists(folder.filePath(QStringLiteral("x.csv"))));
}

TEST_CASE("a session begins where the last one ended, however that was", "[gui]") {
  const QTemporaryDir folder;
  const std::filesystem::path kept = folder.filePath(QStringLiteral("session")).toStdString();
  std::string plan, baseline;
  {
    Opened opened;
    MainWindow& window = *opened.window;
    window.tools().keep_session(kept, true);
    window.pin_baseline();
    baseline = write_plan(window.baseline()->of->run);
    window.document().wish(dimension("plan.microbatch_size"), 1);
    REQUIRE(opened.settled());
    window.views().show(window.views().graph());
    plan = write_plan(window.document().run());
    window.tools().keep();
    // A second window leaves the session alone.
    Opened other;
    other.window->tools().keep_session(kept, true);
    other.window->document().wish(dimension("plan.microbatch_size"), 4);
    other.window->tools().keep();
    // There is no end_session, as if the program were gone.
  }
  {
    Opened opened(nullptr);
    MainWindow& window = *opened.window;
    window.tools().keep_session(kept, true);
    REQUIRE(window.document().is_open());
    REQUIRE(opened.settled());
    CHECK(write_plan(window.document().run()) == plan);
    CHECK_FALSE(window.document().history().isClean());  // it was never saved
    CHECK(window.isWindowModified());
    REQUIRE(window.baseline() != nullptr);
    CHECK(write_plan(window.baseline()->of->run) == baseline);
    CHECK(child<QTabWidget>(window, "views").currentWidget() == &window.views().graph());
    CHECK_FALSE(Session(folder.filePath(QStringLiteral("nothing")).toStdString()).kept().has_value());
    window.tools().end_session();
  }
  {
    // A person who opens another plan does not lose the unsaved one.
    Opened opened;
    opened.window->tools().keep_session(kept, false);
    const QStringList aside = QDir(QString::fromStdString(kept.string())).entryList({QStringLiteral("unsaved-*.toml")});
    REQUIRE(aside.size() == 1);
    Diagnostics d;
    const auto run = opened.window->document().read(kept / aside.front().toStdString(), d);
    REQUIRE(run);
    CHECK(write_plan(*run) == plan);
  }
}

TEST_CASE("everything that takes the keyboard has a name and is reached by Tab", "[gui]") {
  Opened opened;
  MainWindow& window = *opened.window;
  window.views().show_lessons(true);
  window.views().learn().open_lesson(0);
  auto& tabs = child<QTabWidget>(window, "views");
  for (int page = 0; page < tabs.count(); ++page) {
    tabs.setCurrentIndex(page);
    QCoreApplication::processEvents();
    std::set<const QWidget*> reached;
    const QWidget* at = &window;
    do {
      at = at->nextInFocusChain();
      reached.insert(at);
    } while (at != &window && reached.size() < 100'000);
    std::size_t fields = 0;
    for (QWidget* w : window.findChildren<QWidget*>()) {
      if ((w->focusPolicy() & Qt::TabFocus) == 0 || !w->isVisible() || !w->isEnabled()) continue;
      // These are parts of other fields: the line of a spin box, the viewport of a table.
      if (w->focusProxy() != nullptr || w->objectName().startsWith(QStringLiteral("qt_"))) continue;
      CAPTURE(page, w->metaObject()->className(), w->objectName().toStdString());
      QAccessibleInterface* accessible = QAccessible::queryAccessibleInterface(w);
      REQUIRE(accessible != nullptr);
      const auto* bar = qobject_cast<const QTabBar*>(w);
      const bool named = !accessible->text(QAccessible::Name).isEmpty() || (bar != nullptr && bar->count() > 0);
      CHECK(named);
      CHECK(reached.contains(w));
      ++fields;
    }
    CHECK(fields > 10);
  }
}
