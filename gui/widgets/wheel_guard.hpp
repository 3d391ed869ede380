#pragma once

#include <QObject>

namespace orrery::gui {

/// Keeps the mouse wheel from turning numbers, lists and sliders that do not have the focus: there it scrolls what they
/// lie on, as everywhere else.  Acts on every such control of the program that is made after it.
class WheelGuard : public QObject {
  Q_OBJECT
 public:
  explicit WheelGuard(QObject* parent);
  bool eventFilter(QObject*, QEvent*) override;
};

}  // namespace orrery::gui
