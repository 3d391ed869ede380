#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/arguments.hpp"
#include "cli/supervision.hpp"
#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/checkpoint/save.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// Flags of `run` about checkpoints.
struct CheckpointFlags {
  std::optional<std::string> folder;
  std::optional<std::uint32_t> every;  ///< unset: after the last step alone
  bool resume = false;
};
void declare_checkpoints(Command&, CheckpointFlags&);

/// Checkpoints of one run: the one that it goes on from, and those that it saves. Does nothing without --checkpoint.
/// Where ranks are processes, each has one of these, and that of rank 0 reads and writes for all.
class RunCheckpoints {
 public:
  /// Refuses flags and folders that do not go together, and a checkpoint of another model. Keeps references. Damaged
  /// ones are reported on standard error as the run begins.
  RunCheckpoints(const CheckpointFlags&, const PlannedRun&, const Program&);

  /// Tells the supervision what happens, and saves when it is due unless --every says when. Call it before attach.
  void supervise(Supervision& by) { supervision_ = &by; }

  /// Sets what `execute` needs to go on from the checkpoint, and makes every
  /// event call on_event; an interruption ends the run after the step's checkpoint.
  void attach(RunOptions&);

  /// The step that the run begins with: 1, or the one after the checkpoint's.
  [[nodiscard]] std::uint64_t first_step() const { return first_step_; }

  /// Text for people, one line each; empty without --checkpoint.
  [[nodiscard]] std::string text() const;
  /// The object "checkpoint"; null without --checkpoint.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  void on_event(const RunEvent&);
  void begin(const RunEvent&);
  void save(const RunEvent&, std::uint64_t step);

  const CheckpointFlags& flags_;
  const PlannedRun& run_;
  const Program& program_;
  std::unique_ptr<FileSystem> files_ = system_files();
  std::optional<Checkpoint> from_;
  std::uint64_t first_step_ = 1, last_step_ = 0;
  std::optional<std::string> resumed_;  ///< name of what it went on from
  std::optional<std::string> newest_;
  std::vector<std::string> damaged_, changes_;
  std::vector<SavedCheckpoint> saved_;
  std::atomic<bool> stop_{false};
  LifecycleHooks* hooks_ = nullptr;
  Supervision* supervision_ = nullptr;
  std::int64_t last_end_ = 0;  ///< of the setup, or of a step with its save
};

}  // namespace orrery
