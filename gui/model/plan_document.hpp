#pragma once

#include <QObject>
#include <QUndoStack>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/spec/library.hpp"
#include "gui/model/prediction.hpp"
#include "planner/move.hpp"

namespace orrery::gui {

/// The plan that is edited: a valid run with its cluster, its prices, its file and its history.
///
/// Reads and writes the plan files of the command line.  Every change is one
/// undo step that holds the run before and after; moves of one dimension within
/// one gesture (a slider that is dragged) are one step.
class PlanDocument : public QObject {
  Q_OBJECT
 public:
  /// `own_calibration` is the file that `orrery calibrate` wrote on this machine; `cores` is the number of its cores.
  PlanDocument(Library, std::filesystem::path own_calibration, unsigned cores, QObject* parent = nullptr);

  [[nodiscard]] bool is_open() const { return current_ != nullptr; }
  /// Requires is_open().
  [[nodiscard]] const PlannedRun& run() const { return current_->run; }
  [[nodiscard]] const std::shared_ptr<const PricedRun>& priced() const { return current_; }
  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] QUndoStack& history() { return history_; }
  [[nodiscard]] const QUndoStack& history() const { return history_; }

  /// Whether the plan differs from the one that was opened or saved last.
  [[nodiscard]] bool has_changes() const;
  /// The plan as it was opened or saved last; null where that is not known.
  [[nodiscard]] const std::shared_ptr<const PricedRun>& saved() const { return saved_; }
  /// Goes back to saved() for good: no history is left. Returns false where saved() is not known.
  bool discard_changes();

  /// The document that a file would make.
  struct Candidate {
    std::shared_ptr<const PricedRun> run;
    bool replaces = true;        ///< it takes the place of the current plan and its history; otherwise it is one step
                                 ///< of the history
    std::filesystem::path path;  ///< of a plan that is edited from now on; empty: an example, or a step
    QString what;                ///< of a step
  };
  /// Reads and checks a file of any kind (a plan, a model, a config.json, a cluster) and changes nothing. Before a plan
  /// is open only plans make sense.
  [[nodiscard]] std::optional<Candidate> look_at(const std::filesystem::path&, Diagnostics&);
  [[nodiscard]] std::optional<Candidate> look_at_example(const std::string& name, Diagnostics&);
  void take(Candidate);

  /// Reads a plan file; after any mistake nothing has changed.  The file keeps its name for save().
  [[nodiscard]] bool open(const std::filesystem::path&, Diagnostics&);
  /// The same for an example plan, which has no file to be saved to.
  [[nodiscard]] bool open_example(const std::string& name, Diagnostics&);
  /// Writes a plan file whole: an interrupted program leaves the old one. Returns false with the reason where it cannot
  /// be written.
  [[nodiscard]] bool save(const std::filesystem::path&, QString& why);

  /// A wish for one dimension; answered() tells its outcome. One that continues a gesture joins the undo step of the
  /// wish before it.
  void wish(const Dimension&, std::uint64_t value, bool continues = false);
  /// Chooses another model or cluster, by a name of the library or a file; mistakes are in the diagnostics.
  bool choose_model(const std::string& reference, Diagnostics&);
  bool choose_cluster(const std::string& reference, Diagnostics&);
  /// Set --software and --memory-margin of the command line; each is a step of the history.
  bool choose_software(const std::string& name, Diagnostics&);
  bool choose_memory_margin(const std::string& text, Diagnostics&);
  [[nodiscard]] const RunSettings& settings() const { return settings_; }
  /// Sets the settings of a session that is taken up; called before a plan is open.
  void set_settings(const RunSettings& settings) { settings_ = settings; }
  /// Takes a plan that a search found, with the model, workload and cluster of the search.
  void adopt(const Plan&, const PricedRun& on, const QString& what);
  /// The run with its prices, by the current settings; null, with the reason, where its device has no prices.
  [[nodiscard]] std::shared_ptr<const PricedRun> price(PlannedRun, Diagnostics&) const;
  /// The same with given settings. Settings that do not fit the cluster count as not chosen.
  [[nodiscard]] std::shared_ptr<const PricedRun> price(PlannedRun, RunSettings, Diagnostics&) const;
  /// Reads a plan file that is not edited: a lesson's, a baseline's.
  [[nodiscard]] std::optional<PlannedRun> read(const std::filesystem::path&, Diagnostics&) const;
  /// Takes another run that passes check(), as one step of the history; mistakes are in the diagnostics.
  bool take(PlannedRun, const QString& what, Diagnostics&);
  /// Reads the plan from one file and goes on editing another, or none where that is empty. `saved` is the file with
  /// the plan as it was saved; empty: the plan is as it was saved.
  [[nodiscard]] bool restore(const std::filesystem::path& from, const std::filesystem::path& path,
                             const std::filesystem::path& saved, Diagnostics&);
  /// A plan file's run, priced; the document stays as it is.  Null after any mistake.
  [[nodiscard]] std::shared_ptr<const PricedRun> read_priced(const std::filesystem::path&, Diagnostics&) const;
  /// The run as this machine's cores train it. It is on its own cluster where that has cores as devices, otherwise on
  /// one with a core for each of its ranks, as `orrery run` judges it. Null, with the reason, where that cannot be
  /// priced.
  [[nodiscard]] std::shared_ptr<const PricedRun> on_this_machine(const PricedRun&, Diagnostics&) const;
  /// Prices the run anew, after the machine has been calibrated. This is no step of the history, whose runs get new
  /// prices when the person goes back to them.
  void renew_prices();

 Q_SIGNALS:
  void changed();
  /// The outcome of a wish: empty where only it changed, otherwise what changed with it, or why it is not possible.
  void answered(bool met, const QString& text);

 private:
  friend class RunChange;
  void set(std::shared_ptr<const PricedRun>);
  void push(Move, const QString& what, const Dimension* of = nullptr, bool continues = false);
  void push(std::shared_ptr<const PricedRun>, const QString& what);
  [[nodiscard]] std::shared_ptr<const PricedRun> priced(Move) const;
  [[nodiscard]] std::optional<Candidate> look_at_model(const std::string& reference, Diagnostics&) const;
  [[nodiscard]] std::optional<Candidate> look_at_cluster(const std::string& reference, Diagnostics&) const;
  /// The run with current prices, in case the machine was calibrated since.
  [[nodiscard]] std::shared_ptr<const PricedRun> renewed(const std::shared_ptr<const PricedRun>&) const;
  [[nodiscard]] std::shared_ptr<const CalibrationChoice> prices_of(const ClusterSpec&, Precision, const RunSettings&,
                                                                   Diagnostics&) const;

  Library library_;
  std::filesystem::path own_calibration_, path_;
  unsigned cores_;
  RunSettings settings_;  ///< of current_, and of what is opened next
  std::shared_ptr<const PricedRun> current_, saved_;
  bool calibrated_ = false;  ///< since the program began
  QUndoStack history_;
};

}  // namespace orrery::gui
