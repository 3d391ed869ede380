#pragma once

#include <QObject>

namespace orrery::gui {

/// Keeps the mouse wheel from changing numbers, lists and sliders that do not have the focus. There it scrolls the
/// widget that they are in, as everywhere else. It acts on every such control of the program that is made after it.
class WheelGuard : public QObject {
  Q_OBJECT
 public:
  explicit WheelGuard(QObject* parent);
  bool eventFilter(QObject*, QEvent*) override;
};

}  // namespace orrery::gui
