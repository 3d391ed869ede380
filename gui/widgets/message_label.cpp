#include "gui/widgets/message_label.hpp"

#include <QApplication>
#include <QEvent>

#include "gui/widgets/theme.hpp"

namespace orrery::gui {

MessageLabel::MessageLabel(QWidget* parent) : QLabel(parent) {
  setWordWrap(true);
  setTextFormat(Qt::PlainText);
}

void MessageLabel::tell(const QString& text, Tone tone) {
  tone_ = tone;
  colour();
  setText(text);
}

void MessageLabel::colour() {
  const QColor usual = QApplication::palette().color(QPalette::WindowText);
  const bool dark = is_dark(QApplication::palette());
  const QColor wanted = tone_ == Tone::bad ? bad_colour(dark) : tone_ == Tone::good ? good_colour(dark) : usual;
  if (palette().color(QPalette::WindowText) == wanted) return;  // setting it is such a change too
  QPalette own;
  if (tone_ != Tone::plain) own.setColor(QPalette::WindowText, wanted);
  setPalette(own);
}

void MessageLabel::changeEvent(QEvent* event) {
  QLabel::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) colour();
}

}  // namespace orrery::gui
