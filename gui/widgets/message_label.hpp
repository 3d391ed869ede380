#pragma once

#include <QLabel>
#include <cstdint>

namespace orrery::gui {

/// A text about success or failure, in a colour for it that follows the theme.
class MessageLabel : public QLabel {
  Q_OBJECT
 public:
  enum class Tone : std::uint8_t { plain, good, bad };
  explicit MessageLabel(QWidget* parent = nullptr);
  void tell(const QString& text, Tone);

 protected:
  void changeEvent(QEvent*) override;

 private:
  void colour();

  Tone tone_ = Tone::plain;
};

}  // namespace orrery::gui
