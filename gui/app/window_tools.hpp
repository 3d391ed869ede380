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

/// What works on the window as a whole: export of its views, sessions, the command palette, the sheet of keys, layouts.
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
  /// Writes every view in every format that it has into a folder, and the plan; false with the reason.
  bool export_all(const QString& folder, QString& why);

  /// Keeps the session in that folder from now on; `restore`: and takes up what was kept there.  What was not saved and
  /// is not taken up is put aside, and the window says where.
  void keep_session(const std::filesystem::path& folder, bool restore);
  /// Writes the session now.
  void keep();
  /// What was changed since the plan was saved is discarded: neither the document nor the session has it any more.
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
