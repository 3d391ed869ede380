#include <catch2/catch.hpp>

#include <QComboBox>
#include <QLabel>
#include <QPushButton>
#include <QTemporaryDir>
#include <functional>

#include "core/base/units.hpp"
#include "core/record/calibration_file.hpp"
#include "gui/model/basis.hpp"
#include "gui/model/tables.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_view.hpp"
#include "gui/widgets/learn_panel.hpp"
#include "gui/widgets/results_strip.hpp"
#include "gui/widgets/search_panel.hpp"
#include "gui/widgets/timeline_panel.hpp"
#include "gui/widgets/validate_panel.hpp"
#include "tests/gui/opened_window.hpp"
#include "tests/support/program_run.hpp"

// Nothing that belongs to another plan, model or calibration looks as if it belonged to the current plan.

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

void choose_model(MainWindow& window, const char* name) {
  Diagnostics d;
  REQUIRE(window.document().choose_model(name, d));
}

bool any_percentage(const CellTable& table, int column) {
  for (const CellRow& row : table.rows()) {
    if (row.cells[static_cast<std::size_t>(column)].text.contains(u'%')) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a baseline of another model, workload or cluster is no percentage, and it is said what differs", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  window.pin_baseline();
  auto& card = child<MetricCard>(window, "metric-0");
  window.document().wish(dimension("plan.microbatch_size"), 2);
  REQUIRE(opened.settled());
  CHECK(QString::fromStdString(card.shown_change().text).endsWith(QStringLiteral(" %")));  // the same basis
  struct Case {
    const char* what;
    std::function<void()> change;
    const char* says;
  };
  Diagnostics d;
  const Case cases[] = {
      {"another model", [&] { choose_model(window, "gpt3-175b"); }, "model gpt3-175b, not llama-3-70b"},
      {"another workload", [&] { window.document().wish(dimension("workload.batch"), 256); },
       "workload.batch 256, not 128"},
      {"another workload", [&] { window.document().wish(dimension("workload.sequence"), 4096); },
       "workload.sequence 4096, not 8192"},
      {"another cluster", [&] { CHECK(window.document().choose_cluster("dgx-a100", d)); }, "A100"},
      {"another cluster", [&] { window.document().wish(dimension("gpus"), 128); }, "128"}};
  for (const Case& c : cases) {
    const int before = window.document().history().index();
    c.change();
    REQUIRE(window.document().history().index() == before + 1);
    REQUIRE(opened.settled());
    CAPTURE(c.what, c.says);
    for (std::size_t m = 0; m < metric_count; ++m) {
      const MetricChange& change = child<MetricCard>(window, ("metric-" + std::to_string(m)).c_str()).shown_change();
      CHECK(change.text == std::string("baseline: ") + c.what);
      CHECK_FALSE(change.judged);
    }
    CHECK(card.toolTip().contains(QLatin1String(c.says)));
    for (const CellRow& row : results_table(*window.prediction(), window.baseline().get()).rows) {
      CHECK_FALSE(row.cells[3].text.contains(u'%'));
    }
    window.use_layout(Layout::compare);
    REQUIRE(until([&] { return window.compare_panel().is_settled(); }));
    CompareView& view = window.compare_panel().view();
    REQUIRE(view.comparison());
    CHECK_FALSE(any_percentage(view.figures(), 3));
    CHECK_FALSE(any_percentage(view.waterfall(), 4));
    CHECK_FALSE(any_percentage(view.operations(), 3));
    CHECK(child<QLabel>(view, "compare-notes").text().contains(QLatin1String(c.says)));
    window.use_layout(Layout::explore);
    window.document().history().undo();
    REQUIRE(opened.settled());
    CHECK(card.shown_change().judged);
  }
}

TEST_CASE("plans that were found for something else are marked, and not taken", "[gui]") {
  Opened opened("gpt2-1.5b-dgx-a100");
  MainWindow& window = *opened.window;
  window.show_tab(1);
  child<QPushButton>(window, "search-start").click();
  REQUIRE(until([&] { return !window.search().is_running(); }));
  SearchPanel& panel = window.search_panel();
  auto& use = child<QPushButton>(window, "search-use");
  auto& said = child<QLabel>(window, "search-outdated");
  REQUIRE(use.isEnabled());
  CHECK_FALSE(panel.is_outdated());
  window.document().wish(dimension("plan.microbatch_size"), 1);  // what was searched is another plan for the same
  CHECK_FALSE(panel.is_outdated());
  struct Case {
    std::function<void()> change;
    const char* says;
  };
  Diagnostics d;
  const Case cases[] = {{[&] { choose_model(window, "bert-base"); }, "model bert-base, not gpt2-1.5b"},
                        {[&] { window.document().wish(dimension("workload.sequence"), 512); }, "workload.sequence 512"},
                        {[&] { CHECK(window.document().choose_software("none", d)); }, "software none"},
                        {[&] { CHECK(window.document().choose_memory_margin("1 GiB", d)); }, "memory margin 1 GiB"}};
  for (const Case& c : cases) {
    c.change();
    CAPTURE(c.says, said.text().toStdString());
    CHECK(panel.is_outdated());
    CHECK(said.isVisible());
    CHECK(said.text().contains(QLatin1String(c.says)));
    CHECK_FALSE(use.isEnabled());
    window.document().history().undo();
    CHECK_FALSE(panel.is_outdated());
    CHECK(use.isEnabled());
  }
}

TEST_CASE("what was measured of the plan before is marked as that", "[gui]") {
  Opened opened("cpu-one-rank");
  MainWindow& window = *opened.window;
  window.use_layout(Layout::validate);
  ValidatePanel& panel = window.validate_panel();
  auto& message = child<QLabel>(panel, "validate-message");
  panel.process().set_program(QStringLiteral(ORRERY_PROGRAM));
  child<QPushButton>(panel, "validate-run").click();
  REQUIRE(until([&] { return panel.is_settled(); }));
  INFO(message.text().toStdString());
  REQUIRE(panel.view().comparison());
  CHECK_FALSE(panel.view().is_outdated());
  CHECK(message.text().startsWith(QStringLiteral("Predicted ")));
  // This window knows no calibration, so the distance from the datasheet says nothing.
  CHECK(message.text().contains(QStringLiteral("not calibrated")));
  CHECK_FALSE(message.text().contains(u'%'));

  window.document().wish(dimension("workload.sequence"),
                         dimension("workload.sequence").get(window.document().run()) / 2);
  REQUIRE(window.document().history().index() == 1);
  REQUIRE(opened.settled());
  CHECK(panel.view().is_outdated());
  CHECK(child<QLabel>(panel, "compare-outdated").text().contains(QStringLiteral("workload.sequence")));
  CHECK(message.text().startsWith(QStringLiteral("For the previous plan: ")));
  window.document().history().undo();
  REQUIRE(opened.settled());
  CHECK_FALSE(panel.view().is_outdated());
  CHECK(message.text().startsWith(QStringLiteral("Predicted ")));
}

TEST_CASE("a calibration changes prices everywhere, and figures of the old prices are marked", "[gui]") {
  const QTemporaryDir folder;
  const std::filesystem::path own = folder.filePath(QStringLiteral("cpu-core.toml")).toStdString();
  program();
  Dialogs answers;
  answers.may_discard = [](QWidget*) { return true; };
  MainWindow window(Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models"), own, 2, answers);
  REQUIRE(window.open(QStringLiteral("demo-2x2x2")));
  window.show();
  const auto settled = [&] { return until([&] { return window.is_settled(); }); };
  REQUIRE(settled());
  window.pin_baseline();
  window.document().wish(dimension("plan.microbatch_size"), 1);
  REQUIRE(settled());
  auto& card = child<MetricCard>(window, "metric-0");
  CHECK(card.shown_change().judged);
  Calibration measured;
  measured.name = "own";
  measured.device = "cpu-core";
  measured.machine = "a test";
  measured.date = "2026-01-01";
  measured.source = "a test";
  measured.memory_efficiency = 0.5;
  measured.level_efficiency = {1.0};
  measured.launch = 1.0 * microsecond;
  measured.collective_launch = 1.0 * microsecond;
  orrery::test::write(own.string(), calibration_text(measured));
  window.document().renew_prices();
  REQUIRE(settled());
  INFO(window.prediction()->prices->origin);
  REQUIRE(window.prediction()->prices->calibration.machine == "a test");
  CHECK(card.shown_change().text == "baseline: another calibration");
  // Steps of the history that a person goes back to get current prices.
  window.document().history().undo();
  REQUIRE(settled());
  CHECK(window.prediction()->prices->calibration.machine == "a test");
}

TEST_CASE("messages and judgements go when what they are of goes", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  auto& problem = child<QLabel>(window, "problem");
  auto& answer = child<QLabel>(window, "answer");
  const QString hint = answer.text();
  CHECK_FALSE(window.open(QStringLiteral("no-such-plan")));
  CHECK(problem.isVisible());
  window.document().wish(dimension("mesh.tensor"), 3);
  CHECK_FALSE(problem.isVisible());
  CHECK(answer.text().contains(QStringLiteral("Nearest")));
  window.document().wish(dimension("plan.microbatch_size"), 2);
  CHECK_FALSE(answer.text().contains(QStringLiteral("Nearest")));
  window.document().history().undo();
  CHECK(answer.text() == hint);

  LearnPanel& learn = window.views().learn();
  window.views().show_lessons(true);
  auto& verdict = child<QLabel>(learn, "lesson-verdict");
  for (std::size_t l = 0; l < learn.lessons().size(); ++l) {
    for (std::size_t s = 0; s < learn.lessons()[l].steps.size(); ++s) {
      const auto& question = learn.lessons()[l].steps[s].question;
      if (!question || question->kind != LessonQuestion::Kind::reach) continue;
      learn.open_lesson(l, s);
      learn.set_plan();
      child<QPushButton>(learn, "lesson-show").click();
      learn.check();
      REQUIRE(learn.answered_right());
      window.document().history().undo();
      CAPTURE(l, s);
      CHECK_FALSE(learn.answered_right());
      CHECK(verdict.text().isEmpty());
    }
  }
}

TEST_CASE("a step of the plan before is covered until the new one is simulated", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  TimelinePanel& timeline = opened.window->timeline();
  REQUIRE(timeline.step());
  timeline.set_outdated(true);
  CHECK(timeline.view().is_outdated());
  timeline.set_step(timeline.step());
  CHECK_FALSE(timeline.view().is_outdated());
  // A plan that cannot be simulated leaves nothing of another step.
  timeline.set_message(QStringLiteral("too many operations"));
  CHECK(timeline.step() == nullptr);
  CHECK(timeline.statistics().rowCount() == 0);
  CHECK(timeline.path().rowCount() == 0);
}
