#pragma once

#include <catch2/catch.hpp>

#include <QApplication>
#include <QElapsedTimer>
#include <QLatin1String>
#include <QString>
#include <memory>

#include "gui/app/main_window.hpp"
#include "gui/app/plan_views.hpp"

// A window that tests drive, without a display.

namespace orrery::gui::test {

/// One application for all tests of a process, as Qt requires.
inline QApplication& program() {
  static int count = 1;
  static char name[] = "gui_tools";
  static char* values[] = {name, nullptr};
  static const bool set = qEnvironmentVariableIsSet("QT_QPA_PLATFORM") || qputenv("QT_QPA_PLATFORM", "offscreen");
  REQUIRE(set);
  // It is never destroyed: at the end of the program Qt's own statics may be gone before it.
  static auto* const app = new QApplication(count, values);
  return *app;
}

/// Handles events until `holds` is true, two minutes at most.
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

/// A window with an example plan; dialogs answer with `file`.
struct Opened {
  explicit Opened(const char* plan = "demo-2x2x2") {
    program();
    QApplication::setStyle(QStringLiteral("Fusion"));
    use_theme(false);
    Dialogs answers;
    answers.file_to_open = [this](QWidget*) { return file; };
    answers.traces_to_open = [this](QWidget*) { return QStringList(file); };
    answers.file_to_save = [this](QWidget*, const QString&) { return file; };
    answers.file_to_export = [this](QWidget*, const QString&) { return file; };
    answers.may_discard = [this](QWidget*) {
      ++asked;
      return discards;
    };
    const std::filesystem::path data = std::filesystem::path(ORRERY_SOURCE_DIR) / "models";
    window = std::make_unique<MainWindow>(Library(data), std::filesystem::path(), 2, answers);
    window->resize(1280, 800);
    if (plan != nullptr) REQUIRE(window->open(QLatin1String(plan)));
    window->show();
    if (plan != nullptr) REQUIRE(settled());
  }
  bool settled() {
    return until([&] { return window->is_settled() && window->views().is_settled(); });
  }
  QString file;
  int asked = 0;         ///< how often changes were about to be lost
  bool discards = true;  ///< the answer
  std::unique_ptr<MainWindow> window;
};

}  // namespace orrery::gui::test
