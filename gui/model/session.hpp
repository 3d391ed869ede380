#pragma once

#include <QByteArray>
#include <QLockFile>
#include <QString>
#include <filesystem>
#include <memory>
#include <optional>

#include "gui/model/plan_document.hpp"

namespace orrery::gui {

/// The plans that a window had open, kept in a folder while it is used. A program that ends, however it ends, begins
/// the next time where it was.
///
/// The plan is kept as it is, saved or not, in a plan file of its own, with the plan as it was saved beside it; the
/// same holds for the baseline. Settings that no plan file has are kept with each. Files are written whole. When
/// several programs use one folder, the first keeps its session, and the others keep none.
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
  /// Writes everything. Returns false with the reason where it cannot be written.
  bool keep(const PlanDocument&, const PricedRun* baseline, const Place&, QString& why);
  /// Notes that the program ends as it should.
  void end();
  /// Keeps nothing: the next program begins as the first did.
  void forget();

  struct Kept {
    std::filesystem::path plan;      ///< the file that has it
    std::filesystem::path path;      ///< the file that was edited; empty: none
    bool saved = false;              ///< as that file has it
    std::filesystem::path as_saved;  ///< the plan as it was saved, where that differs and is known
    bool ended = false;              ///< as it should
    std::optional<std::filesystem::path> baseline;
    RunSettings settings, baseline_settings;
    Place place;
  };
  /// The kept session; empty where there was none, or where its plan is gone.
  [[nodiscard]] std::optional<Kept> kept() const;
  /// Puts a kept plan that was never saved aside, so that a new session does not overwrite it; returns its new name.
  [[nodiscard]] std::optional<std::filesystem::path> set_aside(const Kept&) const;

 private:
  [[nodiscard]] QString file(const char* name) const;

  std::filesystem::path folder_;
  std::unique_ptr<QLockFile> lock_;
  bool mine_ = false;
};

}  // namespace orrery::gui
