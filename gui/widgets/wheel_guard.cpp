#include "gui/widgets/wheel_guard.hpp"

#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QEvent>
#include <QScrollBar>

namespace orrery::gui {
namespace {

/// Whether the wheel turns its value.
bool holds_value(const QObject* object) {
  return qobject_cast<const QAbstractSpinBox*>(object) != nullptr ||
         qobject_cast<const QComboBox*>(object) != nullptr ||
         (qobject_cast<const QAbstractSlider*>(object) != nullptr &&
          qobject_cast<const QScrollBar*>(object) == nullptr);
}

}  // namespace

WheelGuard::WheelGuard(QObject* parent) : QObject(parent) { qApp->installEventFilter(this); }

bool WheelGuard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::Wheel && event->type() != QEvent::Polish) return false;
  if (!holds_value(watched)) return false;
  auto* control = static_cast<QWidget*>(watched);
  if (event->type() == QEvent::Polish) {
    // Otherwise Qt gives it the focus before it is asked about the wheel.
    if (control->focusPolicy() == Qt::WheelFocus) control->setFocusPolicy(Qt::StrongFocus);
    return false;
  }
  if (control->hasFocus() || control->isAncestorOf(QApplication::focusWidget())) return false;
  event->ignore();  // so that it goes to the widget below the control
  return true;
}

}  // namespace orrery::gui
