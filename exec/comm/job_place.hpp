#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// Which of a job's processes this one is, and where the processes find each other.
struct JobPlace {
  std::uint32_t rank = 0, ranks = 1;
  std::optional<std::uint32_t> local_rank;  ///< among the job's processes of this host
  std::string source;                       ///< "torchrun (RANK, WORLD_SIZE)"
  std::string job;                          ///< tells its processes from another job's; may be empty
  std::string meeting;                      ///< "host:port", or a file; empty where nothing says
};

/// The flags about the job.
struct JobFlags {
  std::optional<std::uint32_t> rank, ranks, local_rank;
  std::optional<std::string> meeting;
};

/// The value of an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// Finds the place from flags, or from the variables that torchrun, Open MPI, MPICH (or another with PMI) or Slurm has
/// set, in this order; empty where none has.
///
/// All complete descriptions must agree. There are two exceptions: torchrun starts several processes in each of an
/// outer launcher's, and mpirun starts its daemons by srun. An incomplete or contradictory description, or a value that
/// is no number, is a mistake.
[[nodiscard]] std::optional<JobPlace> find_job(const JobFlags&, const Environment&, Diagnostics&);

/// The first host of Slurm's list: "n[003-007,9],m1" gives "n003", "rack[1-2]n[3,5]" gives "rack1n3".
[[nodiscard]] std::string first_host(const std::string& list);

}  // namespace orrery
