#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/adaptation.hpp"
#include "cli/common.hpp"
#include "cli/job.hpp"
#include "cli/job_token.hpp"
#include "cli/run_checkpoints.hpp"
#include "cli/run_log.hpp"
#include "cli/run_metrics.hpp"
#include "cli/supervision.hpp"
#include "cli/verbs.hpp"
#include "exec/comm/job_place.hpp"
#include "exec/comm/mpi_communicator.hpp"
#include "exec/comm/nccl_calls.hpp"
#include "exec/comm/socket_communicator.hpp"
#include "exec/comm/world.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/device/power.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/launch.hpp"
#include "exec/run/recorder.hpp"
#include "exec/train/data.hpp"

namespace orrery {

/// `orrery run`: flags, preparation and ranks on CPUs are in run.cpp, processes that are started here in
/// run_launch.cpp, ranks on GPUs in run_gpu.cpp, and the output in run_show.cpp.
class RunVerb final : public Verb {
 public:
  const char* name() const override { return "run"; }
  const char* summary() const override { return "train a plan for real, its ranks being threads or processes"; }

  void declare(Command&) override;
  int run() override;

 private:
  /// Everything that is needed to begin.
  struct Prepared {
    LoadedPlan loaded;
    std::unique_ptr<DataSource> data;
    RunOptions options;
    std::vector<std::string> notes;  ///< for the report: what it ran on
    /// With --measure-groups the plan's own Program; that of `loaded` then has the collectives of its groups.
    std::optional<Program> trained{};
    std::shared_ptr<PowerOfRun> power{};  ///< of a GPU whose driver counts energy; rank 0's
  };
  int run_by_backend();
  /// Throws mistakes about the files that are to be written, then begins the log: later failures stand in it. Among
  /// several processes one `begins` it.
  void open_log(bool begins);
  /// Throws mistakes of arguments and files.
  [[nodiscard]] Prepared prepare() const;
  void refuse_too_large(const Program&) const;
  /// The batches of --noise-scale. Throws where the plan has no two sizes of them.
  [[nodiscard]] NoiseBatches noise_batches(const PlannedRun&) const;
  /// The run on the machine that it was measured on.
  [[nodiscard]] PlannedRun as_measured(const PlannedRun& planned) const;

  /// What rank 0's, and every other rank's, process does; returns its exit status.
  using TrainRank = std::function<int(ProcessWorld&, Recorder&, Prepared&, RunCheckpoints&)>;
  /// Starts a process for every rank, and again after a failure with --supervise; returns the exit status.
  int launch_ranks(Prepared&, const TrainRank&);
  int supervise(Prepared&, const TrainRank&);
  /// Puts another plan in place of the prepared one: the best for one rank less, or for still fewer.
  void shrink(Prepared&) const;
  [[nodiscard]] LaunchOutcome start_ranks(Prepared&, RunCheckpoints&, const RecordsFolder&, const TrainRank&) const;

  /// Trains this process's rank, or all ranks that are threads, under one plan after the other with --adapt. Ranks of a
  /// world are told.
  RunResult train(Prepared&, ProcessWorld*, const std::function<RunResult()>& segment);
  /// The other ranks' side of it.
  static void follow(Prepared&, ProcessWorld&, const std::function<void()>& segment);
  /// Refuses what --adapt cannot change the plan of.
  void check_adaptation() const;

  int run_on_threads();
  int run_as_processes();
  int run_over_mpi();
  int run_on_gpu();
  [[nodiscard]] Issue issue() const { return graphs_ == "on" ? Issue::graphs : Issue::ops; }
  /// Refuses flags that do not go with the backend.
  void check_backend() const;
  /// Starts a process for every rank, each with a GPU.
  int run_on_gpus();
  /// Runs this process as one of a job that others have started.
  int run_in_job(const JobPlace&);
  /// Trains this process's rank; returns the exit status.
  int train_on_gpu(ProcessWorld&, int gpu, const NcclCalls&, Prepared&, RunCheckpoints&, Recorder*);
  /// Counts the energy that this GPU uses, where its driver reports it.
  void watch_power(Prepared&, const Device&) const;
  /// Shows the progress of the run while `train` goes on; on rank 0.
  RunResult watched(Prepared&, RunCheckpoints&, const std::function<RunResult()>& train);
  /// The collectives that --measure-groups measures in place of a plan's Program.
  [[nodiscard]] Program program_of_groups(const Program&) const;
  int show_groups(const Prepared&, const RunResult&) const;
  /// Writes and prints the results; returns the exit status.
  int show(const Prepared&, const RunResult&, const RunCheckpoints&) const;

  /// The same where a failure came after the last step.
  int show_supervised_end(const RunCheckpoints&) const;

  CommonFlags flags_;
  RunLog run_log_;
  /// It lives until main has reported the mistake. Its end waits for all processes, and mpirun kills those that are
  /// left once one has failed.
  std::optional<MpiSession> session_;
  /// The same for a job of ranks with GPUs: other ranks end once they see that this process has gone.
  std::unique_ptr<SocketWorld> world_;
  CheckpointFlags checkpoints_;
  SuperviseFlags supervise_;
  AdaptFlags adapt_;
  std::unique_ptr<Adaptation> adaptation_;  ///< with --adapt, where it decides
  std::unique_ptr<RunJournal> changes_;     ///< with --adapt and processes: a note for each change of the plan
  MetricsFlags metrics_;
  std::unique_ptr<Supervision> supervision_;  ///< with --supervise
  TokenFlags token_;
  std::string plan_, backend_ = "threads", graphs_ = "off";
  std::optional<std::string> trace_, measure_groups_, log_, disk_, records_, rendezvous_, nccl_;
  std::optional<std::uint32_t> ranks_, rank_, world_size_, local_rank_;
  std::optional<std::uint32_t> gpu_;
  bool share_gpu_ = false, mpi_collectives_ = false, noise_scale_ = false;
  std::uint64_t steps_ = 5, warmup_ = 1;
  double watchdog_ = 60.0, heartbeat_ = 5.0;
};

/// Live bytes of all ranks at their peaks.
[[nodiscard]] double needed_bytes(const Program&);

}  // namespace orrery
