#pragma once

#include <QObject>
#include <QTimer>
#include <functional>
#include <memory>
#include <vector>

#include "gui/model/session.hpp"

class QMenu;

namespace orrery::gui {

class CommandPalette;
class MainWindow;

/// Functions for the whole window: export of its views, sessions, the command palette, the sheet of keys, layouts.
class WindowTools : public QObject {
  Q_OBJECT
 public:
  explicit WindowTools(MainWindow&);

  struct View {
    QString name;                    ///< as it is called in menus
    QString file;                    ///< "timeline"
    std::function<QWidget&()> show;  ///< brings it to the front
  };
  [[nodiscard]] const std::vector<View>& views() const { return views_; }
  /// Writes every view in every format that it has, and the plan, into a folder; returns false with the reason.
  bool export_all(const QString& folder, QString& why);

  /// Keeps the session in that folder from now on. With `restore` it also takes up the session that was kept there. An
  /// unsaved plan that is not taken up is put aside, and the window says where.
  void keep_session(const std::filesystem::path& folder, bool restore);
  /// Writes the session now.
  void keep();
  /// Discards the changes since the plan was saved: neither the document nor the session has them any more.
  void discard_changes();
  void end_session();
  void show_palette();
  void show_keys();

 private:
  void add_export(QMenu&);
  void export_one(const View&);
  bool restore(const Session::Kept&);

  MainWindow& window_;
  std::vector<View> views_;
  std::unique_ptr<Session> session_;
  QTimer keep_soon_;
  CommandPalette* palette_ = nullptr;
};

}  // namespace orrery::gui
