#include <catch2/catch.hpp>

#include <QDragEnterEvent>
#include <QFile>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>

#include "core/plan/plan_file.hpp"
#include "gui/widgets/compare_view.hpp"
#include "gui/widgets/search_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/validate_panel.hpp"
#include "tests/gui/opened_window.hpp"

// A person's mistakes: a clear message in place, and nothing is lost.

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

QString written(const QTemporaryDir& folder, const char* name, const QByteArray& text) {
  const QString file = folder.filePath(QLatin1String(name));
  QFile out(file);
  REQUIRE(out.open(QIODevice::WriteOnly));
  REQUIRE(out.write(text) == text.size());
  return file;
}

void drop(QWidget& on, const QString& file) {
  QMimeData mime;
  mime.setUrls({QUrl::fromLocalFile(file)});
  QDragEnterEvent enter(QPoint(20, 20), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&on, &enter);
  QDropEvent event(QPointF(20, 20), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&on, &event);
}

}  // namespace

TEST_CASE("what is dropped and no plan, model or cluster is refused with a reason, and nothing changes",
          "[gui][error]") {
  Opened opened;
  MainWindow& window = *opened.window;
  window.document().wish(dimension("plan.microbatch_size"), 1);  // not saved
  REQUIRE(opened.settled());
  const std::string before = write_plan(window.document().run());
  const int steps = window.document().history().count();
  const QTemporaryDir folder;
  struct Case {
    QString file;
    const char* says;
  };
  const Case cases[] = {
      {folder.path(), "this is a folder"},
      {folder.filePath(QStringLiteral("gone.toml")), "no such file"},
      {written(folder, "empty.toml", ""), "Known: plans"},
      {written(folder, "picture.png", QByteArray("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16)), "is not a text file"},
      {written(folder, "half.toml", "[plan\nmodel ="), "half.toml:1"},
      {written(folder, "key.toml", "schema = 1\nmodel = \"tiny-gpt\"\nclustr = \"local-cpu\"\n"), "clust"},
      {written(folder, "list.json", "[1, 2"), "list.json"},
      {written(folder, "kineto.json",
               R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"kernel","pid":0,"tid":7,"ts":1,"dur":2}]})"),
       "Validate"},
  };
  auto& problem = child<QLabel>(window, "problem");
  for (const Case& c : cases) {
    problem.hide();
    drop(child<SetupPanel>(window, "setup"), c.file);
    REQUIRE(opened.settled());
    CAPTURE(c.file.toStdString(), problem.text().toStdString());
    CHECK(problem.isVisible());
    CHECK(problem.text().contains(QLatin1String(c.says), Qt::CaseInsensitive));
    CHECK(problem.text().size() < 1500);
    CHECK(write_plan(window.document().run()) == before);
    CHECK(window.document().history().count() == steps);
  }
}

TEST_CASE("a trace that is none of the plan, or none at all, is refused in place", "[gui][error]") {
  Opened opened;
  MainWindow& window = *opened.window;
  window.use_layout(Layout::validate);
  ValidatePanel& panel = window.validate_panel();
  auto& message = child<QLabel>(panel, "validate-message");
  const QTemporaryDir folder;
  panel.import(written(folder, "kineto.json", R"({"schemaVersion":1,"traceEvents":[]})"));
  REQUIRE(until([&] { return panel.is_settled(); }));
  CHECK(message.text().contains(QStringLiteral("holds no kernel of a device")));
  // This is a profile, but with 2 ranks and not of the plan.
  panel.import(QStringLiteral(ORRERY_SOURCE_DIR "/tests/fuzz/seeds/profile/two-steps.json"));
  REQUIRE(until([&] { return panel.is_settled(); }));
  CHECK(message.text().contains(QStringLiteral("in a run of 2 ranks, but the plan has")));
  panel.import(written(folder, "report.sqlite", QByteArray("SQLite format 3\0", 16)));
  REQUIRE(until([&] { return panel.is_settled(); }));
  CHECK(message.text().contains(QStringLiteral("Nsight Systems")));
  panel.import(folder.filePath(QStringLiteral("gone.json")));
  REQUIRE(until([&] { return panel.is_settled(); }));
  CHECK(message.text().contains(QStringLiteral("cannot read")));
  CHECK_FALSE(panel.view().comparison());
  CHECK(child<QPushButton>(panel, "validate-run").isEnabled());
  // A program that dies.
  const QString dies = written(folder, "dies", "#!/bin/sh\necho broken >&2\nkill -SEGV $$\n");
  QFile::setPermissions(dies, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
  panel.process().set_program(dies);
  child<QPushButton>(panel, "validate-run").click();
  REQUIRE(until([&] { return panel.is_settled(); }));
  CHECK(message.text().contains(QStringLiteral("ended by a signal")));
  CHECK(message.text().contains(QStringLiteral("broken")));
  CHECK(child<QPushButton>(panel, "validate-run").isEnabled());
}

TEST_CASE("a search in which nothing fits says so and keeps the plan", "[gui][error]") {
  Opened opened("gpt2-1.5b-dgx-a100");
  MainWindow& window = *opened.window;
  Diagnostics d;
  REQUIRE(window.document().choose_model("gpt3-175b", d));
  window.document().wish(dimension("gpus"), 1);
  REQUIRE(opened.settled());
  const std::string before = write_plan(window.document().run());
  window.show_tab(1);
  child<QPushButton>(window, "search-start").click();
  REQUIRE(until([&] { return !window.search().is_running(); }));
  CHECK(window.search_panel().plans().empty());
  const QString said = child<QLabel>(window, "search-status").text();
  INFO(said.toStdString());
  CHECK(said.contains(QStringLiteral("fits in memory")));
  CHECK_FALSE(child<QPushButton>(window, "search-use").isEnabled());
  CHECK(write_plan(window.document().run()) == before);
}

TEST_CASE("every panel can be painted however small its window is", "[gui][error]") {
  Opened opened;
  MainWindow& window = *opened.window;
  for (const QSize size : {QSize(1, 1), QSize(200, 120), QSize(640, 200), QSize(300, 900)}) {
    window.resize(size);
    for (int page = 0; page < 7; ++page) {
      window.show_tab(page);
      QCoreApplication::processEvents();
      CHECK_FALSE(window.grab().isNull());
    }
  }
}
