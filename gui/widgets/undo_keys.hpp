#pragma once

#include <QLineEdit>
#include <QObject>
#include <QPointer>
#include <QWidget>

namespace orrery::gui {

/// Gives the keys of undo and redo to the history of the window's document, wherever the focus is.
///
/// Text fields would keep them for their own undo. They keep them only while typed text has not been taken yet: until
/// Enter, until the focus goes, or until something newer is in the history.
class UndoKeys : public QObject {
  Q_OBJECT
 public:
  explicit UndoKeys(QWidget& window);
  /// Typed text is no longer the newest change.
  void end_typing();
  bool eventFilter(QObject*, QEvent*) override;

 private:
  [[nodiscard]] bool is_of_window(const QWidget&) const;
  void begin_typing(QLineEdit&);

  QWidget& window_;
  QPointer<QLineEdit> field_;  ///< has the focus
  bool typing_ = false;        ///< in it
};

}  // namespace orrery::gui
