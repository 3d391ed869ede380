#pragma once

#include <cstdint>
#include <vector>

#include "core/base/work_progress.hpp"
#include "jobs/job_policy.hpp"

namespace orrery {

/// Nodes that fail one by one, with exponential times between failures of a node, and come back repaired.
///
/// Leaves out: failures that nodes do not cause, groups of nodes that fail together, nodes that turn slow, and the time
/// until a failure is noticed.
struct NodeFailures {
  double node_failures_per_s = 0.0;  ///< of one node while it is up; 0: none
  Microseconds repair = 0;           ///< from the failure until the node may be used again
  std::uint64_t seed = 1;
  friend bool operator==(const NodeFailures&, const NodeFailures&) = default;
};

struct JobSimulation {
  std::vector<std::uint32_t> gpus_of_nodes;  ///< at least one node, each with at least one GPU
  PlaceRule places = PlaceRule::packed;
  JobCosts costs = {};
  NodeFailures failures = {};
  bool keep_stretches = false;  ///< for drawings
  WorkProgress progress = {};   ///< jobs ended, of all, at least each 1024 instants; it may throw
};

/// What came of a workload under a policy.
struct JobHistory {
  std::vector<JobProgress> jobs;  ///< all have ended
  std::vector<JobStretch> stretches;
  Microseconds begin = 0, end = 0;  ///< first submission, last end
  GpuMicroseconds busy = 0;         ///< GPU time that nodes gave; equals the sum of what jobs used
  GpuMicroseconds crowd = 0;        ///< jobs that want GPUs, summed over time
  std::uint32_t most_crowd = 0;
  std::uint64_t node_failures = 0;
  std::uint64_t gpus = 0;
  std::uint64_t events = 0;  ///< submissions, starts, stops and ends
  /// A number for all that happened: time, kind, job and places of every event, in order. Histories that differ
  /// anywhere have the same number only with a chance of 2^-64.
  std::uint64_t hash = 0;
};

/// Share of time in which at least `needed` of `nodes` are up, each by itself: with d = failures a second of a node
/// that is up x repair, a node is up for 1 / (1 + d) of the time, and the number of nodes that are up is binomial.
[[nodiscard]] double up_share(const NodeFailures&, std::size_t nodes, std::size_t needed);

/// Seconds until all jobs would have ended if they ran one by one, each as slowly as it can, without restarts.
[[nodiscard]] double last_end_s(const JobWorkload&, const JobCosts&);
/// Beyond it microseconds could leave 64 bits.
inline constexpr double latest_end_s = 1e12;

/// Plays a workload event by event. Speeds change only at events, so there is no time step, and all times are exact to
/// the microsecond; a job that runs scattered ends at the first whole microsecond at which its work is done. At one
/// instant jobs end, then nodes fail and are repaired, then jobs are submitted, each by their numbers, and then the
/// policy decides once.
///
/// Requires that every job fits on the empty cluster, times within `longest_time`, and a last_end_s() of at most
/// `latest_end_s`.
[[nodiscard]] JobHistory simulate_jobs(const JobWorkload&, const JobPolicyRow&, const JobSimulation&);

}  // namespace orrery
