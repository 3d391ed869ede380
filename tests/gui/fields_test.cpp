#include <catch2/catch.hpp>

#include <QtTest/qtestspontaneevent.h>
#include <QComboBox>
#include <QLineEdit>
#include <QScrollArea>
#include <QScrollBar>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTest>
#include <QWheelEvent>

#include "core/plan/plan_file.hpp"
#include "gui/widgets/dimension_editor.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/timeline_panel.hpp"
#include "tests/gui/opened_window.hpp"

// The effect of the wheel and of the keys of undo in fields.

using namespace orrery;
using namespace orrery::gui;
using namespace orrery::gui::test;

namespace {

/// Turns the wheel by a notch at the middle of the widget, as the window system sends it: to the innermost widget.
void turn_wheel(QWidget& over, int notches) {
  const QPoint middle = over.rect().center();
  QWidget* innermost = over.childAt(middle);
  QWidget& at = innermost == nullptr ? over : *innermost;
  const QPointF here = at.mapFrom(&over, QPointF(middle)), global = over.mapToGlobal(QPointF(middle));
  QWheelEvent event(here, global, {}, QPoint(0, 120 * notches), Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
  QSpontaneKeyEvent::setSpontaneous(&event);  // only such are handed on to what lies below
  qApp->notify(&at, &event);
}

/// The value of a control.
QVariant value_of_control(const QWidget& w) {
  if (const auto* slider = qobject_cast<const QAbstractSlider*>(&w)) return slider->value();
  if (const auto* list = qobject_cast<const QComboBox*>(&w)) return list->currentText();
  const auto* field = w.findChild<const QLineEdit*>();
  return field == nullptr ? QVariant() : QVariant(field->text());
}

QList<QWidget*> value_controls(QWidget& window) {
  QList<QWidget*> out;
  for (QWidget* w : window.findChildren<QWidget*>()) {
    const bool slider = qobject_cast<QAbstractSlider*>(w) != nullptr && qobject_cast<QScrollBar*>(w) == nullptr;
    if (slider || qobject_cast<QAbstractSpinBox*>(w) != nullptr || qobject_cast<QComboBox*>(w) != nullptr) out += w;
  }
  return out;
}

void activate(MainWindow& window) {
  window.activateWindow();
  REQUIRE(QTest::qWaitForWindowActive(&window));
}

void press_undo() { QTest::keyClick(QApplication::focusWidget(), Qt::Key_Z, Qt::ControlModifier); }

}  // namespace

TEST_CASE("the wheel over controls that do not have the focus edits nothing, whichever they are", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  activate(window);
  auto& tabs = child<QTabWidget>(window, "views");
  const std::string plan = write_plan(window.document().run());
  int tried = 0;
  for (int page = 0; page < tabs.count(); ++page) {
    tabs.setCurrentIndex(page);
    QCoreApplication::processEvents();
    window.timeline().view().setFocus();
    for (QWidget* control : value_controls(window)) {
      if (!control->isVisible() || control->hasFocus()) continue;
      CAPTURE(page, control->metaObject()->className(), control->objectName().toStdString(),
              control->accessibleName().toStdString());
      const QVariant before = value_of_control(*control);
      for (const int notches : {1, 1, 1, -1, -1, -1, -1}) turn_wheel(*control, notches);
      CHECK(value_of_control(*control) == before);
      CHECK_FALSE(control->hasFocus());
      ++tried;
    }
  }
  CHECK(tried > 60);
  CHECK(write_plan(window.document().run()) == plan);
  CHECK(window.document().history().count() == 0);
}

TEST_CASE("the wheel over a number scrolls the panel, and turns the number that has the focus", "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  activate(window);
  auto& setup = child<SetupPanel>(window, "setup");
  auto& tensor = child<DimensionEditor>(setup, "mesh.tensor");
  auto& number = *tensor.findChild<QSpinBox*>();
  QScrollBar& bar = *setup.findChild<QScrollArea*>()->verticalScrollBar();
  REQUIRE(bar.maximum() > 0);
  window.timeline().view().setFocus();
  REQUIRE(number.value() == 8);
  bar.setValue(0);
  for (QWidget* over : {static_cast<QWidget*>(&number), static_cast<QWidget*>(tensor.findChild<QSlider*>())}) {
    const int before = bar.value();
    turn_wheel(*over, -1);
    CHECK(bar.value() > before);
  }
  CHECK(number.value() == 8);
  bar.setValue(0);
  number.setFocus();
  turn_wheel(number, -1);
  REQUIRE(opened.settled());
  CHECK(number.value() == 4);
  CHECK(bar.value() == 0);
}

TEST_CASE("Ctrl+Z undoes one step of the plan, wherever the focus is", "[gui]") {
  Opened opened;
  MainWindow& window = *opened.window;
  activate(window);
  window.views().show_lessons(true);
  auto& tabs = child<QTabWidget>(window, "views");
  QUndoStack& history = window.document().history();
  window.document().wish(dimension("plan.microbatch_size"), 1);
  int tried = 0;
  for (int page = 0; page < tabs.count(); ++page) {
    tabs.setCurrentIndex(page);
    QCoreApplication::processEvents();
    for (QWidget* w : window.findChildren<QWidget*>()) {
      if ((w->focusPolicy() & Qt::TabFocus) == 0 || !w->isVisible() || !w->isEnabled()) continue;
      w->setFocus();
      if (!w->hasFocus()) continue;  // a part that hands the focus on
      CAPTURE(page, w->metaObject()->className(), w->objectName().toStdString(), w->accessibleName().toStdString());
      window.document().wish(dimension("plan.microbatch_size"),
                             dimension("plan.microbatch_size").get(window.document().run()) == 1 ? 2 : 1);
      const int before = history.index();
      QTest::keyClick(w, Qt::Key_Z, Qt::ControlModifier);
      CHECK(history.index() == before - 1);
      ++tried;
    }
  }
  CHECK(tried > 60);
}

TEST_CASE("after a number or a filter was used Ctrl+Z is the plan's, and before that what is typed has its own",
          "[gui]") {
  Opened opened("llama-3-70b-8-dgx-h100");
  MainWindow& window = *opened.window;
  activate(window);
  QUndoStack& history = window.document().history();
  auto& tensor = child<DimensionEditor>(window, "mesh.tensor");
  auto& number = *tensor.findChild<QSpinBox*>();
  auto& typed = *number.findChild<QLineEdit*>();
  SECTION("a number that was taken") {
    number.setFocus();
    typed.selectAll();
    QTest::keyClicks(&number, QStringLiteral("4"));
    QTest::keyClick(&number, Qt::Key_Return);
    REQUIRE(number.value() == 4);
    REQUIRE(history.index() == 1);
    press_undo();
    CHECK(history.index() == 0);
    CHECK(number.value() == 8);
    CHECK(typed.text() == QStringLiteral("8"));
    QTest::keyClick(&number, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    CHECK(history.index() == 1);
    CHECK(number.value() == 4);
  }
  SECTION("a number that is being typed") {
    window.document().wish(dimension("plan.microbatch_size"), 2);
    REQUIRE(history.index() == 1);
    number.setFocus();
    typed.selectAll();
    QTest::keyClicks(&number, QStringLiteral("2"));
    press_undo();
    CHECK(typed.text() == QStringLiteral("8"));
    CHECK(history.index() == 1);  // the plan is as it was
    press_undo();
    CHECK(history.index() == 0);
  }
  SECTION("a step of the arrows") {
    number.setFocus();
    QTest::keyClick(&number, Qt::Key_Down);
    REQUIRE(number.value() == 4);
    press_undo();
    CHECK(history.index() == 0);
    CHECK(number.value() == 8);
  }
  SECTION("a filter") {
    window.show_tab(1);
    window.document().wish(dimension("plan.microbatch_size"), 2);
    QLineEdit* filter = nullptr;
    for (QLineEdit* l : window.findChildren<QLineEdit*>()) {
      if (l->accessibleName().startsWith(QStringLiteral("Filter"))) filter = l;
    }
    REQUIRE(filter != nullptr);
    filter->setFocus();
    QTest::keyClicks(filter, QStringLiteral("inter"));
    press_undo();
    CHECK(filter->text().isEmpty());
    CHECK(history.index() == 1);
    press_undo();
    CHECK(history.index() == 0);
    QTest::keyClick(filter, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    CHECK(history.index() == 1);  // what was undone last comes back first
    CHECK(filter->text().isEmpty());
    // A field that was used and left as it is keeps its text.
    filter->setText({});
    QTest::keyClicks(filter, QStringLiteral("zb"));
    QTest::keyClick(filter, Qt::Key_Return);
    window.document().wish(dimension("plan.microbatch_size"), 4);
    const int steps = history.index();
    press_undo();
    CHECK(history.index() == steps - 1);
    CHECK(filter->text() == QStringLiteral("zb"));
  }
  SECTION("something newer than what is typed") {
    window.show_tab(1);
    auto& limits = child<QLineEdit>(window, "search-limits");
    child<QComboBox>(window, "search-space").setCurrentIndex(2);
    limits.setFocus();
    QTest::keyClicks(&limits, QStringLiteral("tensor=1d"));
    window.document().wish(dimension("plan.microbatch_size"), 2);
    press_undo();
    CHECK(history.index() == 0);
    CHECK(limits.text() == QStringLiteral("tensor=1d"));
  }
}
