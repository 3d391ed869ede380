#include "gui/widgets/undo_keys.hpp"

#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QKeyEvent>

namespace orrery::gui {
namespace {

/// Where text is typed into the widget; null where none is.
QLineEdit* field_of(QWidget* widget) {
  if (auto* line = qobject_cast<QLineEdit*>(widget)) return line;
  if (auto* list = qobject_cast<QComboBox*>(widget)) return list->lineEdit();
  return qobject_cast<QAbstractSpinBox*>(widget) == nullptr ? nullptr : widget->findChild<QLineEdit*>();
}

}  // namespace

UndoKeys::UndoKeys(QWidget& window) : QObject(&window), window_(window) { qApp->installEventFilter(this); }

bool UndoKeys::is_of_window(const QWidget& widget) const {
  const QWidget* top = widget.window();
  // A floating panel is a window of its own.
  return top == &window_ || (qobject_cast<const QDockWidget*>(top) != nullptr && top->parentWidget() == &window_);
}

void UndoKeys::begin_typing(QLineEdit& field) {
  field_ = &field;
  end_typing();
  connect(&field, &QLineEdit::textEdited, this, [this, &field] { typing_ = field_ == &field; });
}

void UndoKeys::end_typing() {
  typing_ = false;
  if (field_) field_->setModified(false);  // later typing can be taken back up to here, and no further
}

bool UndoKeys::eventFilter(QObject* watched, QEvent* event) {
  const QEvent::Type type = event->type();
  if (type != QEvent::FocusIn && type != QEvent::FocusOut && type != QEvent::KeyPress &&
      type != QEvent::ShortcutOverride) {
    return false;
  }
  auto* widget = qobject_cast<QWidget*>(watched);
  if (widget == nullptr || !is_of_window(*widget)) return false;
  QLineEdit* field = field_of(widget);
  if (type == QEvent::FocusIn) {
    if (field != nullptr && field != field_) begin_typing(*field);
    return false;
  }
  if (type == QEvent::FocusOut) {
    if (field == nullptr || field != field_) return false;
    disconnect(field, nullptr, this, nullptr);
    typing_ = false;
    field_.clear();
    return false;
  }
  const auto* key = static_cast<const QKeyEvent*>(event);
  if (type == QEvent::KeyPress) {
    if (field != nullptr && (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter)) end_typing();
    return false;
  }
  const bool undo = key->matches(QKeySequence::Undo), redo = key->matches(QKeySequence::Redo);
  if (!undo && !redo) return false;
  const bool own = field != nullptr && field == field_ && typing_ &&
                   (undo ? field->isModified() && field->isUndoAvailable() : field->isRedoAvailable());
  if (own) return false;
  event->ignore();  // no field takes it, so it is the window's shortcut
  return true;
}

}  // namespace orrery::gui
