#pragma once

#include <QByteArray>
#include <QLockFile>
#include <QString>
#include <filesystem>
#include <memory>
#include <optional>

#include "gui/model/plan_document.hpp"

namespace orrery::gui {

/// What a window had open, kept in a folder while it is used, so that a program that ends, however it ends, begins
/// where it was.
///
/// The plan is kept as it is, saved or not, in a plan file of its own, and beside it as it was saved; so is the
/// baseline.  Settings that no plan file has are kept with each.  Files are written whole.  Of several programs on one
/// folder the first keeps its session, and the others none.
class Session {
 public:
  explicit Session(std::filesystem::path folder);

  /// Whether this program may write here.
  [[nodiscard]] bool is_mine() const { return mine_; }
  struct Place {
    QString view;         ///< name of the panel in front
    QByteArray geometry;  ///< of the window
    QByteArray panels;
    bool lessons = false;
  };
  /// Writes everything.  False with the reason where it cannot be.
  bool keep(const PlanDocument&, const PricedRun* baseline, const Place&, QString& why);
  /// Says that the program ends as it should.
  void end();
  /// Nothing is kept: the next program begins as the first did.
  void forget();

  struct Kept {
    std::filesystem::path plan;      ///< the file that has it
    std::filesystem::path path;      ///< the file that was edited; empty: none
    bool saved = false;              ///< as that file has it
    std::filesystem::path as_saved;  ///< else the plan as it was saved, where that is known
    bool ended = false;              ///< as it should
    std::optional<std::filesystem::path> baseline;
    RunSettings settings, baseline_settings;
    Place place;
  };
  /// What was kept; nothing where no session was, or where its plan is gone.
  [[nodiscard]] std::optional<Kept> kept() const;
  /// Puts a kept plan that was never saved aside, so that a new session does not write over it: its new name.
  [[nodiscard]] std::optional<std::filesystem::path> set_aside(const Kept&) const;

 private:
  [[nodiscard]] QString file(const char* name) const;

  std::filesystem::path folder_;
  std::unique_ptr<QLockFile> lock_;
  bool mine_ = false;
};

}  // namespace orrery::gui
