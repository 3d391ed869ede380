#pragma once

#include <QLineEdit>
#include <QObject>
#include <QPointer>
#include <QWidget>

namespace orrery::gui {

/// Gives the keys of undo and redo to the history of the window's document, wherever the focus is.
///
/// Fields that take text would keep them for their own undo.  They do so only while text is typed that has not been
/// taken yet: until Enter, until the focus goes, or until something newer is in the history.
class UndoKeys : public QObject {
  Q_OBJECT
 public:
  explicit UndoKeys(QWidget& window);
  /// What is typed is no longer the newest change.
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
