#include <catch2/catch.hpp>

#include <QDragEnterEvent>
#include <QLabel>
#include <QMimeData>
#include <QTemporaryDir>

#include "core/plan/plan_file.hpp"
#include "gui/app/window_tools.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "tests/gui/opened_window.hpp"
#include "tests/support/program_run.hpp"

// Changes that are thrown away, and the question before that.

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

std::string text_of(MainWindow& window) { return write_plan(window.document().run()); }

QString written(const QTemporaryDir& folder, const char* name, const std::string& text) {
  const QString file = folder.filePath(QLatin1String(name));
  orrery::test::write(file.toStdString(), text);
  return file;
}

void drop(MainWindow& window, const QString& file) {
  auto& on = child<SetupPanel>(window, "setup");
  QMimeData mime;
  mime.setUrls({QUrl::fromLocalFile(file)});
  QDragEnterEvent enter(QPoint(20, 20), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&on, &enter);
  QDropEvent event(QPointF(20, 20), Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&on, &event);
}

/// The window closes as its program does, and its changes are discarded.
void close_and_discard(Opened& opened) {
  const int before = opened.asked;
  CHECK(opened.window->close());
  CHECK(opened.asked == before + 1);
  opened.window->tools().end_session();
}

/// What the next start finds.
std::string next_start(const std::filesystem::path& session) {
  Opened opened(nullptr);
  opened.window->tools().keep_session(session, true);
  if (!opened.window->document().is_open()) return "nothing";
  CHECK_FALSE(opened.window->document().has_changes());
  CHECK_FALSE(opened.window->isWindowModified());
  return text_of(*opened.window);
}

}  // namespace

TEST_CASE("a change that is discarded is not there at the next start", "[gui]") {
  const QTemporaryDir folder;
  const std::filesystem::path session = folder.filePath(QStringLiteral("session")).toStdString();
  std::string before;
  SECTION("of an example") {
    Opened opened;
    opened.window->tools().keep_session(session, true);
    before = text_of(*opened.window);
    opened.window->document().wish(dimension("plan.microbatch_size"), 1);
    opened.window->tools().keep();  // as the timer does
    close_and_discard(opened);
  }
  SECTION("of a file") {
    Opened opened;
    opened.window->tools().keep_session(session, true);
    opened.window->document().wish(dimension("plan.microbatch_size"), 1);
    opened.file = folder.filePath(QStringLiteral("plan.toml"));
    opened.window->save();
    before = text_of(*opened.window);
    opened.window->document().wish(dimension("plan.microbatch_size"), 4);
    opened.window->tools().keep();
    close_and_discard(opened);
    CHECK(orrery::test::contents(opened.file.toStdString()) == before);
  }
  SECTION("of a program that had ended before it was saved") {
    {
      Opened opened;
      opened.window->tools().keep_session(session, true);
      before = text_of(*opened.window);
      opened.window->document().wish(dimension("plan.microbatch_size"), 1);
      opened.window->tools().keep();
    }
    Opened again(nullptr);
    again.window->tools().keep_session(session, true);
    REQUIRE(again.window->document().has_changes());
    CHECK(text_of(*again.window) != before);
    close_and_discard(again);
  }
  SECTION("where nobody knows what was saved") {
    {
      Opened opened;
      opened.window->tools().keep_session(session, true);
      opened.window->document().wish(dimension("plan.microbatch_size"), 1);
      opened.window->tools().keep();
    }
    std::filesystem::remove(session / "saved.toml");
    Opened again(nullptr);
    again.window->tools().keep_session(session, true);
    REQUIRE(again.window->document().has_changes());
    close_and_discard(again);
    before = "nothing";
  }
  CHECK(next_start(session) == before);
}

TEST_CASE("a window whose changes may not be lost stays, with them and their history", "[gui]") {
  const QTemporaryDir folder;
  Opened opened;
  opened.window->tools().keep_session(folder.path().toStdString(), true);
  opened.window->document().wish(dimension("plan.microbatch_size"), 1);
  const std::string changed = text_of(*opened.window);
  opened.discards = false;
  CHECK_FALSE(opened.window->close());
  CHECK(text_of(*opened.window) == changed);
  CHECK(opened.window->document().history().canUndo());
  // A change that was undone is no change, so there is no question.
  opened.window->document().wish(dimension("plan.microbatch_size"), 2);
  REQUIRE(opened.window->document().history().index() == 2);
  CHECK_FALSE(opened.window->isWindowModified());
  CHECK(opened.window->close());
  CHECK(opened.asked == 1);
}

TEST_CASE("a dropped file is read before anybody is asked about the plan in hand", "[gui][error]") {
  const QTemporaryDir folder;
  Opened opened;
  MainWindow& window = *opened.window;
  window.document().wish(dimension("plan.microbatch_size"), 1);
  REQUIRE(opened.settled());
  const std::string before = text_of(window);
  auto& problem = child<QLabel>(window, "problem");
  const QString bad[] = {written(folder, "half.toml", "[plan\nmodel ="),
                         written(folder, "wrong.toml",
                                 "schema = 1\nmodel = \"tiny-gpt\"\ncluster = \"local-cpu\"\n[mesh]\ndata = \"two\"\n"),
                         written(folder, "empty.toml", ""),
                         folder.filePath(QStringLiteral("gone.toml")),
                         written(folder, "model.toml", "schema = 1\n[model]\nname = \"x\"\n"),
                         written(folder, "config.json", "{")};
  for (const QString& file : bad) {
    problem.hide();
    drop(window, file);
    CAPTURE(file.toStdString());
    CHECK(problem.isVisible());
    CHECK(opened.asked == 0);
    CHECK(text_of(window) == before);
    CHECK(window.document().history().count() == 1);
  }
  // A model is a step that can be undone: nothing is lost, so there is no question.
  drop(window, QStringLiteral(ORRERY_SOURCE_DIR "/models/hf/bert-base/config.json"));
  CHECK(opened.asked == 0);
  CHECK(window.document().history().count() == 2);
  CHECK_FALSE(problem.isVisible());
  window.document().history().undo();
  CHECK(text_of(window) == before);
  // A plan takes the place of the current one, so there is a question, and only "discard" does it.
  const QString plan =
      written(folder, "plan.toml", window.document().saved() ? write_plan(window.document().saved()->run) : "");
  opened.discards = false;
  drop(window, plan);
  CHECK(opened.asked == 1);
  CHECK(text_of(window) == before);
  CHECK(window.document().history().canUndo());
  opened.discards = true;
  drop(window, plan);
  CHECK(opened.asked == 2);
  CHECK(text_of(window) != before);
  CHECK(window.document().path() == plan.toStdString());
  CHECK_FALSE(window.document().history().canUndo());
}
