#pragma once

#include <QDialog>
#include <QSortFilterProxyModel>
#include <QStandardItemModel>

class QAction;
class QLineEdit;
class QListView;

namespace orrery::gui {

/// The name of an action in lists of actions: "File \u25b8 Save", without the marks of keys.
[[nodiscard]] QString full_name(const QAction&);
/// The actions of a window that have a name and can be listed, by full name.
[[nodiscard]] QList<QAction*> listed_actions(const QWidget& window);

/// All commands of a window in one list that typing makes shorter; Enter does the first.
class CommandPalette : public QDialog {
  Q_OBJECT
 public:
  explicit CommandPalette(QWidget& window);

 protected:
  void showEvent(QShowEvent*) override;
  bool eventFilter(QObject*, QEvent*) override;

 private:
  void fill();
  void run();

  QWidget& window_;
  QStandardItemModel commands_;
  QSortFilterProxyModel found_;
  QLineEdit* words_;
  QListView* list_;
};

/// A table of every key that does something.
class ShortcutSheet : public QDialog {
  Q_OBJECT
 public:
  explicit ShortcutSheet(QWidget& window);
};

}  // namespace orrery::gui
