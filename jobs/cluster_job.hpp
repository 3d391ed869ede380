#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

// Many jobs on one cluster. A workload file gives jobs (read_job_workload), a policy decides which of them run where
// (JobPolicy), and simulate_jobs() plays all of it event by event. Times are whole microseconds, so that results are
// exact: the same input gives the same history, and the GPU time of jobs adds up to that of nodes.

/// A time, or a span of time, in whole microseconds.
using Microseconds = std::int64_t;
inline constexpr Microseconds microseconds_per_second = 1'000'000;
/// The latest time and the longest run that a workload may have: 10^8 s, three years.
inline constexpr Microseconds longest_time = 100'000'000 * microseconds_per_second;

/// GPUs x microseconds. It has 128 bits, since 64 would end at a hundred thousand GPUs for three years.
__extension__ using GpuMicroseconds = __int128;
/// In seconds, rounded to the nearest double.
[[nodiscard]] constexpr double seconds_of(GpuMicroseconds t) {
  return static_cast<double>(t) / static_cast<double>(microseconds_per_second);
}

/// Speed of a job on the GPUs that its row names. Other speeds are parts of it, or multiples.
inline constexpr std::int64_t full_speed = 10'000;

/// How fast a job works on some number of GPUs.
struct JobSpeed {
  std::uint32_t gpus = 1;
  std::int64_t speed = full_speed;  ///< at least 1
  friend bool operator==(const JobSpeed&, const JobSpeed&) = default;
};

/// How a job ended where it was recorded. Failed and cancelled jobs hold most of the GPU time of some clusters, so they
/// are simulated to their recorded end like all others.
enum class JobEnd : std::uint8_t { completed, failed, cancelled };

/// What a job trains, from which the planner makes its run and speeds.
struct JobTraining {
  std::string model;  ///< as `orrery plan --model` takes it
  std::uint64_t batch = 0, sequence = 0;
  std::uint64_t steps = 0;
  std::string precision = "bf16", optimizer = "adam";
  friend bool operator==(const JobTraining&, const JobTraining&) = default;
};

/// A job that `orrery jobs --execute` runs on this machine: plans of one model, one for each number of ranks.
struct JobProcesses {
  std::vector<std::string> plans;  ///< as the file names them
  std::uint64_t steps = 0;
  friend bool operator==(const JobProcesses&, const JobProcesses&) = default;
};

/// A job as a workload file gives it.
struct ClusterJob {
  std::string name;
  Microseconds submit = 0;  ///< from the workload's beginning
  Microseconds run = 0;     ///< on `gpus` GPUs without interruption
  std::uint32_t gpus = 1;
  JobEnd end = JobEnd::completed;
  /// Numbers of GPUs on which it can run, ascending, `gpus` with `full_speed` among them. Empty: it is rigid.
  std::vector<JobSpeed> speeds = {};
  std::string application = {};                ///< what it trains, where speeds come from tables
  std::optional<JobTraining> training = {};    ///< the same where they come from the planner; `run` is 0 until then
  std::optional<JobProcesses> processes = {};  ///< the same where its speeds are measured here
  Microseconds startup = 0;                    ///< for which it holds its GPUs without progress when it first starts
  std::optional<Microseconds> restart = {};    ///< the same when it goes on after a stop; unset: JobCosts::restart
  Position at = {};                            ///< its row in the file
  friend bool operator==(const ClusterJob&, const ClusterJob&) = default;
};

/// The speeds of a job. A rigid one has one: full speed on `gpus`.
[[nodiscard]] std::vector<JobSpeed> speeds_of(const ClusterJob&);

/// A row of a workload file that is left out, or used with a doubt, and why.
struct DoubtfulRow {
  Position at;
  std::string why;
  bool left_out = true;
  friend bool operator==(const DoubtfulRow&, const DoubtfulRow&) = default;
};

/// The jobs of a workload file in order of their submission; the order of the file breaks ties.
struct JobWorkload {
  std::string format;  ///< "tiresias", "philly": the name of the reader
  std::vector<ClusterJob> jobs;
  std::vector<DoubtfulRow> doubts;
  friend bool operator==(const JobWorkload&, const JobWorkload&) = default;
};

}  // namespace orrery
