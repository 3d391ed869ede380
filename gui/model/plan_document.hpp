#pragma once

#include <QObject>
#include <QUndoStack>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/spec/library.hpp"
#include "edit/dimension_move.hpp"
#include "gui/model/prediction.hpp"

namespace orrery::gui {

/// The plan that is edited: a valid run with its cluster, its prices, its file and its history.
///
/// Reads and writes the plan files of the command line.  Every change is one
/// undo step that holds the run before and after; moves of one dimension within
/// one gesture (a slider that is dragged) are one step.
class PlanDocument : public QObject {
  Q_OBJECT
 public:
  /// `own_calibration`: what `orrery calibrate` wrote on this machine; `cores`: of this machine.
  PlanDocument(Library, std::filesystem::path own_calibration, unsigned cores, QObject* parent = nullptr);

  [[nodiscard]] bool is_open() const { return current_ != nullptr; }
  /// Requires is_open().
  [[nodiscard]] const PlannedRun& run() const { return current_->run; }
  [[nodiscard]] const std::shared_ptr<const PricedRun>& priced() const { return current_; }
  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] QUndoStack& history() { return history_; }
  [[nodiscard]] const QUndoStack& history() const { return history_; }

  /// Reads a plan file; after any mistake nothing has changed.  The file keeps its name for save().
  [[nodiscard]] bool open(const std::filesystem::path&, Diagnostics&);
  /// The same of an example plan, which has no file to be saved to.
  [[nodiscard]] bool open_example(const std::string& name, Diagnostics&);
  /// Writes a plan file whole: an interrupted program leaves the old one.  False with the reason where it cannot be
  /// written.
  [[nodiscard]] bool save(const std::filesystem::path&, QString& why);

  /// A wish for one dimension; what came of it is told by answered().  One that continues a gesture joins the undo step
  /// of the wish before it.
  void wish(Dimension, std::uint64_t value, bool continues = false);
  /// Another model or cluster, by a name of the library or a file; mistakes are in the diagnostics.
  bool choose_model(const std::string& reference, Diagnostics&);
  bool choose_cluster(const std::string& reference, Diagnostics&);
  /// A file of whatever kind: a plan is opened, a model, config.json or cluster is chosen.
  bool take_file(const std::filesystem::path&, Diagnostics&);
  /// Takes a plan that was found, with the model, workload and cluster that it was found on.
  void adopt(const Plan&, const PricedRun& on, const QString& what);
  /// The run with its prices; null with the reason where its device has none.
  [[nodiscard]] std::shared_ptr<const PricedRun> price(PlannedRun, Diagnostics&);
  /// Reads a plan file that is not edited: a lesson's, a baseline's.
  [[nodiscard]] std::optional<PlannedRun> read(const std::filesystem::path&, Diagnostics&) const;
  /// Takes another run that passes check(), as one step of the history; mistakes are in the diagnostics.
  bool take(PlannedRun, const QString& what, Diagnostics&);
  /// Reads the plan from one file and goes on editing another, or none where that is empty: changes that were never
  /// saved.
  [[nodiscard]] bool restore(const std::filesystem::path& from, const std::filesystem::path& path, bool saved,
                             Diagnostics&);
  /// A plan file's run, priced; the document stays as it is.  Null after any mistake.
  [[nodiscard]] std::shared_ptr<const PricedRun> read_priced(const std::filesystem::path&, Diagnostics&);
  /// The run as this machine's cores train it: on its own cluster where that is of cores, else on one that has a core
  /// for each of its ranks, as `orrery run` judges it.  Null with the reason where that cannot be priced.
  [[nodiscard]] std::shared_ptr<const PricedRun> on_this_machine(const PricedRun&, Diagnostics&);
  /// Prices the run anew: the machine has been calibrated.  No step of the history.
  void renew_prices();

 Q_SIGNALS:
  void changed();
  /// What a wish came to: empty where it was met alone, else what changed with it, or why it could not be.
  void answered(orrery::Dimension, bool met, const QString& text);

 private:
  friend class RunChange;
  void set(std::shared_ptr<const PricedRun>);
  void push(Move, const QString& what, std::optional<Dimension> of = std::nullopt, bool continues = false);
  [[nodiscard]] bool load(const std::filesystem::path&, Diagnostics&);
  [[nodiscard]] std::shared_ptr<const CalibrationChoice> prices_of(const ClusterSpec&, Precision, Diagnostics&);

  Library library_;
  std::filesystem::path own_calibration_, path_;
  unsigned cores_;
  std::shared_ptr<const PricedRun> current_;
  QUndoStack history_;
};

}  // namespace orrery::gui
