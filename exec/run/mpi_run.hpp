#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "exec/comm/mpi_communicator.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

struct MpiRunOptions {
  Seconds heartbeat = Seconds::of(5);  ///< longest time in which a process of this host may give no sign of life
  std::filesystem::path records;       ///< folder for the records of this host's ranks; made and, after success,
                                       ///< removed
  /// Called by one process of a host with the reason, before the job is ended.
  std::function<void(const std::string&)> tell;
  bool library_collectives = false;  ///< use MPI's own collectives in place of ours; requires one op at a time
  int failed_status = 3;             ///< with which the job is ended
  /// Called when SIGTERM has come although all of this host's ranks live, because then somebody wants the job to end.
  std::function<void()> asked_to_end;
  /// The status with which the job is to end at once, with no rank to blame; empty while it is not; asked often.
  std::function<std::optional<int>()> end_now;
};

/// execute_rank for the processes of an MPI job, each calling it with the same arguments. Rank 0 gets the result, the
/// others nothing.
///
/// Ranks of one host keep records in a folder and watch each other there. A rank that fails, falls silent or waits too
/// long ends the job, after one process of its host has told why. This function does not return then. A killed rank
/// makes the launcher end the others with SIGTERM. So the signal is blocked while this runs, and counts as a wish to
/// end only where no rank of the host is gone.
[[nodiscard]] std::optional<RunResult> execute_mpi(MpiSession&, const Program&, const Workload&, const DataSource&,
                                                   const RunOptions&, const MpiRunOptions&);

}  // namespace orrery
