#include <catch2/catch.hpp>

#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QStandardItemModel>
#include <QTemporaryDir>
#include <QTest>
#include <nlohmann/json.hpp>

#include "gui/app/window_tools.hpp"
#include "gui/widgets/search_panel.hpp"
#include "tests/gui/opened_window.hpp"
#include "tests/support/program_run.hpp"
#include "validate/cost_labels.hpp"

// --software and --memory-margin of the command line, in the window.

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

nlohmann::json told(const std::string& arguments) {
  const orrery::test::Ran ran = orrery::test::run(ORRERY_PROGRAM, arguments + " --json");
  INFO(ran.err);
  REQUIRE(ran.status <= 1);
  return nlohmann::json::parse(ran.out);
}

void choose(QComboBox& list, const char* name) {
  const int at = list.findText(QLatin1String(name));
  REQUIRE(at >= 0);
  list.setCurrentIndex(at);
  Q_EMIT list.activated(at);
}

void type_margin(MainWindow& window, const char* text) {
  auto& field = *child<QComboBox>(window, "memory-margin").lineEdit();
  field.setFocus();
  field.selectAll();
  QTest::keyClicks(&field, QLatin1String(text));
  QTest::keyClick(&field, Qt::Key_Return);
}

}  // namespace

TEST_CASE("software is chosen as by --software, priced as there, and undone", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  auto& software = child<QComboBox>(window, "software");
  auto& note = child<QLabel>(window, "settings-note");
  QStringList names{QStringLiteral("auto"), QStringLiteral("none")};
  for (const TrainingProgram& p : training_programs()) {
    names += QString::fromUtf8(p.name.data(), static_cast<qsizetype>(p.name.size()));
  }
  REQUIRE(software.count() == names.size());
  for (int i = 0; i < names.size(); ++i) CHECK(software.itemText(i) == names[i]);
  CHECK(software.currentText() == QStringLiteral("auto"));
  CHECK(note.text().contains(QStringLiteral("nemo is assumed")));
  const double assumed = window.prediction()->report.step_time.base();
  for (const char* name : {"none", "megatron-core", "torchtitan"}) {
    choose(software, name);
    REQUIRE(opened.settled());
    const auto json = told(std::string("estimate llama-3-70b-8-dgx-h100 --software ") + name);
    CAPTURE(name);
    CHECK(window.prediction()->report.step_time.base() == json["step_time_s"].get<double>());
    CHECK(window.prediction()->report.software == json["software"]["name"].get<std::string>());
    CHECK_FALSE(note.text().contains(QStringLiteral("assumed")));
  }
  CHECK(window.document().history().count() == 3);
  CHECK_FALSE(window.document().has_changes());  // no plan file has it
  for (int i = 0; i < 3; ++i) window.document().history().undo();
  REQUIRE(opened.settled());
  CHECK(software.currentText() == QStringLiteral("auto"));
  CHECK(window.prediction()->report.step_time.base() == assumed);
  window.document().history().redo();
  CHECK(software.currentText() == QStringLiteral("none"));
}

TEST_CASE("software that does not go with a cluster cannot be chosen there, and is left behind", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  auto& software = child<QComboBox>(window, "software");
  choose(software, "nemo");
  REQUIRE(opened.settled());
  REQUIRE(window.open(QStringLiteral("demo-2x2x2")));  // on CPU cores
  REQUIRE(opened.settled());
  CHECK(software.currentText() == QStringLiteral("auto"));
  const auto* items = qobject_cast<const QStandardItemModel*>(software.model());
  const int nemo = software.findText(QStringLiteral("nemo"));
  CHECK_FALSE(items->item(nemo)->isEnabled());
  CHECK(items->item(nemo)->toolTip().contains(QStringLiteral("CPU cores")));
  CHECK(items->item(software.findText(QStringLiteral("none")))->isEnabled());
  choose(software, "nemo");
  CHECK(software.currentText() == QStringLiteral("auto"));
  CHECK(child<QLabel>(window, "answer").text().contains(QStringLiteral("CPU cores")));
  CHECK(window.document().history().count() == 0);
}

TEST_CASE("the memory margin bounds a search as --memory-margin does", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  auto& margin = child<QComboBox>(window, "memory-margin");
  auto& answer = child<QLabel>(window, "answer");
  CHECK(margin.currentText() == QStringLiteral("auto"));
  CHECK(child<QLabel>(window, "settings-note").text().contains(QStringLiteral("of 79.6 GiB free")));
  type_margin(window, "30 GiB");
  REQUIRE(opened.settled());
  CHECK(margin.currentText() == QStringLiteral("30 GiB"));
  CHECK(child<QLabel>(window, "settings-note").text().contains(QStringLiteral("keeps 30.0 GiB of 79.6 GiB free")));
  window.show_tab(1);
  child<QSpinBox>(window, "search-top").setValue(3);
  child<QComboBox>(window, "search-space").setCurrentIndex(2);
  child<QLineEdit>(window, "search-limits")
      .setText(QStringLiteral("tensor=1d zero=0,1 schedule=1f1b context=off replica=off offload=off loss_chunks=1"));
  child<QPushButton>(window, "search-start").click();
  REQUIRE(until([&] { return !window.search().is_running(); }, 300'000));
  const auto json = told(
      "plan --model llama-3-70b --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 --no-simulate --top 1 "
      "--only 'tensor=1d zero=0,1 schedule=1f1b context=off replica=off offload=off loss_chunks=1' "
      "--memory-margin '30 GiB'");
  REQUIRE_FALSE(window.search_panel().plans().empty());
  const Report& best = window.search_panel().plans().front().report;
  CHECK(best.step_time.base() == json["plans"][0]["step_time_s"].get<double>());
  for (const FoundPlan& p : window.search_panel().plans()) {
    // The device has 81,559 MiB, as an H100 shows, less 30 GiB.
    REQUIRE(p.report.peak_memory_process_bytes);
    CHECK(*p.report.peak_memory_process_bytes <= (81'559ULL << 20) - (30ULL << 30));
  }

  const int steps = window.document().history().count();
  for (const char* wrong : {"lots", "80 GiB", "-1 GiB", "4"}) {
    type_margin(window, wrong);
    CAPTURE(wrong, answer.text().toStdString());
    CHECK(answer.text().contains(QStringLiteral("memory margin")));
    CHECK(margin.currentText() == QStringLiteral("30 GiB"));
    CHECK(window.document().history().count() == steps);
  }
  window.document().history().undo();
  CHECK(margin.currentText() == QStringLiteral("auto"));
}

TEST_CASE("settings are kept with the session, and told to the command line", "[gui]") {
  const QTemporaryDir folder;
  const std::filesystem::path session = folder.filePath(QStringLiteral("session")).toStdString();
  double step = 0.0;
  {
    Opened opened("llama-3-70b-8-dgx-h100");
    MainWindow& window = *opened.window;
    window.tools().keep_session(session, true);
    window.pin_baseline();
    choose(child<QComboBox>(window, "software"), "none");
    choose(child<QComboBox>(window, "memory-margin"), "4 GiB");
    REQUIRE(opened.settled());
    step = window.prediction()->report.step_time.base();
    window.tools().end_session();
    opened.file = folder.filePath(QStringLiteral("plan.toml"));
    window.save();
    for (QAction* a : window.findChildren<QAction*>()) {
      if (a->text().contains(QStringLiteral("command line"))) a->trigger();
    }
    CHECK(QGuiApplication::clipboard()->text().endsWith(QStringLiteral("' --software none")));
  }
  Opened opened(nullptr);
  MainWindow& window = *opened.window;
  window.tools().keep_session(session, true);
  REQUIRE(opened.settled());
  CHECK(child<QComboBox>(window, "software").currentText() == QStringLiteral("none"));
  CHECK(child<QComboBox>(window, "memory-margin").currentText() == QStringLiteral("4 GiB"));
  CHECK(window.prediction()->report.step_time.base() == step);
  REQUIRE(window.baseline());
  CHECK(window.baseline()->report.software == "nemo");
}
