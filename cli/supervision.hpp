#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/arguments.hpp"
#include "cli/run_journal.hpp"
#include "cli/save_pace.hpp"

namespace orrery {

/// Flags of `run` about going on after failures.
struct SuperviseFlags {
  bool wanted = false;
  std::uint32_t tries = 3;
  std::string restart = "same";                   ///< "fewer": without the rank that failed
  std::optional<std::string> between_failures{};  ///< "2 h"
};
void declare_supervision(Command&, SuperviseFlags&);
/// Throws mistakes in these flags. Processes of this machine can be supervised.
void check_supervision(const SuperviseFlags&, bool processes_here, bool keeps_checkpoints);

/// The parts of the wall time of a supervised run, in seconds. Their sum is the wall time.
struct WallTime {
  double kept = 0.0;      ///< steps that count
  double repeated = 0.0;  ///< steps that a failure undid
  double saves = 0.0;
  double unfinished = 0.0;  ///< from the last step or save until a failure was noticed
  double starting = 0.0;    ///< from the start of processes until the first step begins
  double other = 0.0;       ///< between a failure and the next start, and after the last step
  [[nodiscard]] double all() const { return kept + repeated + saves + unfinished + starting + other; }
};

/// The record of a run that is begun anew after failures. The process that watches the ranks keeps it; rank 0's
/// process has a copy, adds to it through the journal, and reports it when the run has ended.
class Supervision {
 public:
  /// Steps `first_step` and on are this run's. Throws the mistake where --mean-time-between-failures is no time.
  Supervision(const SuperviseFlags&, std::uint64_t first_step);

  // The watcher:
  void starts(std::int64_t now);  ///< processes are started
  /// A failure was noticed; `from` is the last step of the checkpoint to go on from. Returns whether to try again.
  [[nodiscard]] bool fails(std::int64_t now, std::string what, std::uint64_t from, std::uint64_t ranks);
  /// Number of restarts so far.
  [[nodiscard]] std::uint32_t restarts() const { return static_cast<std::uint32_t>(failures_.size()); }

  // Rank 0's process:
  void began(std::uint64_t step);
  void step_ended(std::uint64_t step, std::int64_t took, std::optional<double> loss);
  void saved(std::uint64_t step, std::int64_t took);
  [[nodiscard]] bool save_is_due() const { return pace_.due(); }
  void ends();

  // The results, once it has ended:
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  [[nodiscard]] std::uint64_t kept_steps() const { return last_step_ + 1 - first_step_; }
  [[nodiscard]] WallTime wall() const;
  /// Mean time from the notice of a failure until the first step begins; empty where no restart got so far.
  [[nodiscard]] std::optional<double> restart_s() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  struct Failure {
    std::string what;
    double at = 0.0, kept = 0.0;  ///< seconds since the run began, and those of them that were kept work
    std::uint64_t step = 0, from = 0, ranks = 0;  ///< last step that had ended, and that was kept; ranks of the restart
  };
  void apply(const JournalEntry&);
  /// Notes it for the watcher, and applies it to this process's copy.
  void note(const JournalEntry&);

  SavePace pace_;
  RunJournal journal_;
  std::uint64_t first_step_;  ///< the first that this run trains; earlier ones where a failure makes it go back further
  std::uint64_t last_step_;
  std::uint32_t tries_, tries_left_;
  bool fewer_;
  bool began_ = false;          ///< since the last start
  std::uint64_t furthest_ = 0;  ///< last step of the newest checkpoint that a failure has left
  std::int64_t begun_at_ = 0, started_at_ = 0, noticed_at_ = 0, last_at_ = 0, ended_at_ = 0;
  double repeated_ = 0.0, unfinished_ = 0.0, starting_ = 0.0, restarting_ = 0.0;
  std::uint32_t restarts_that_began_ = 0;
  std::vector<Failure> failures_;
  std::vector<double> losses_, step_times_;  ///< of steps first_step_ and on
};

}  // namespace orrery
