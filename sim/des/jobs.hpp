#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/des/simulate.hpp"

namespace orrery {

/// One of several jobs on a cluster.  All pointers outlive its use.
struct FabricJob {
  const PlannedRun* run = nullptr;
  const Program* program = nullptr;
  const CostModel* costs = nullptr;           ///< on the whole cluster, with `gpus` as placement
  std::vector<std::uint32_t> gpus;            ///< [rank]: its GPU of the fabric
  std::optional<Stragglers> stragglers = {};  ///< among its ranks
  std::vector<SlowRank> slow = {};
  std::optional<Noise> noise = {};  ///< drawn anew for every step; where any job has noise, no job is folded
};

struct JobsOptions {
  FabricRoutes fabric;               ///< whose links all jobs share
  std::uint32_t steps = 4;           ///< that every job ends at least; 1 or more
  bool expand = false;               ///< as in SimulateOptions
  bool timeline = false;             ///< keep one
  SimulationProgress progress = {};  ///< counts the steps of the job that has ended the fewest
};

/// A step of a job as it was, among the steps of others.
struct JobStep {
  Picoseconds begin = 0;
  Trace trace;  ///< one rank of each class, times from `begin` on
};

/// How long a job's steps took beside the other jobs. Means are over the steps that count: all steps that it ended
/// except the first, which all jobs begin at one instant (with options.steps 1, that one counts too).
struct JobResult {
  std::uint32_t steps = 0;  ///< that it ended
  Seconds step_time, shortest, longest;
  Seconds compute, exposed_communication, bubble;
  Report last;  ///< of its last step
  std::uint32_t rank_classes = 0;
  /// Its steps that lie, at least partly, after every job has begun its last whole one.
  std::vector<JobStep> timeline;
};

/// A link that jobs share.
struct SharedLoad {
  LinkId link{};
  Bandwidth bandwidth;        ///< that the library reaches, as in LinkLoad
  std::vector<Bytes> by_job;  ///< [job]: what its step sends over the link
};
/// The share of a link that job `j` takes: bytes of its step, over the time of its step, over the link's bandwidth.
[[nodiscard]] double utilization(const SharedLoad&, const std::vector<JobResult>&, std::size_t j);
/// Utilization by all jobs.
[[nodiscard]] double utilization(const SharedLoad&, const std::vector<JobResult>&);

struct JobsSimulation {
  std::vector<JobResult> jobs;
  Seconds time;                   ///< until the last job has ended its steps
  std::vector<SharedLoad> links;  ///< those that carry anything, by number
  std::uint64_t events = 0;
  std::uint64_t history_hash = 0;  ///< hash over every step of every job that ended (history_hash.hpp), and over when
                                   ///< it began
  std::optional<std::uint32_t> link_classes, flow_classes;
};

/// Plays several Programs side by side on one cluster, each on GPUs of its own, over one fabric.
///
/// All jobs begin at one instant. Each job repeats its step: the next one begins on all its ranks when the last of them
/// has ended the one before. A job that meets no other therefore takes as long for every step as simulate() says. The
/// simulation goes on until every job has ended `steps` of them, so the short steps of one job meet the long ones of
/// another until the end. Ranks are folded over all jobs at once (folding.hpp).
///
/// Requires jobs that share no GPU, on one cluster whose nodes are those of the fabric (asserted), and devices whose
/// ranks share no cores.  Throws as simulate() does.
[[nodiscard]] JobsSimulation simulate_jobs(const std::vector<FabricJob>&, const JobsOptions&);

}  // namespace orrery
