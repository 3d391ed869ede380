#pragma once

#include <cstdint>

#include "jobs/job_simulation.hpp"

namespace orrery {

/// Figures of a history. Times are in seconds; those of jobs are 0 where there is no job.
struct JobFigures {
  double mean_completion = 0.0;    ///< from submission to end (JCT)
  double median_completion = 0.0;  ///< for an even number of jobs the mean of the two in the middle
  double p99_completion = 0.0;     ///< the least time that at least 99 % of jobs do not exceed
  /// The mean weighted by the GPU time of jobs: the mean over jobs hides what large ones wait.
  double weighted_completion = 0.0;
  double mean_queue = 0.0;     ///< from submission to the first start
  double makespan = 0.0;       ///< from the first submission to the last end
  double gpu_time = 0.0;       ///< GPU-seconds that jobs held, restarts included
  double lost = 0.0;           ///< GPU-seconds in restarts
  double undone = 0.0;         ///< GPU-seconds of work that failures of nodes undid
  std::uint64_t failures = 0;  ///< times that a job lost its GPUs since a node failed
  double utilization = 0.0;    ///< GPU time over that of all GPUs between the first submission and the last end
  double mean_crowd = 0.0;     ///< jobs that want GPUs at a time (contention), mean over the makespan
  std::uint32_t most_crowd = 0;
  std::uint64_t stops = 0;     ///< times that a policy took a job's GPUs
  double mean_fairness = 0.0;  ///< of finish_time_fairness()
  double worst_fairness = 0.0;
  double unfair = 0.0;  ///< share of jobs whose fairness is above 1
};
[[nodiscard]] JobFigures job_figures(const JobWorkload&, const JobHistory&);

/// A job's time over its time alone on an equal share of the cluster; above 1 the job would have done better alone.
///
///     rho = T / (D / v max(1, g N / G))
///
///     T  time from submission to end     D  run on the GPUs that its row names
///     G  GPUs of the cluster             N  jobs that wanted GPUs, mean over T
///     g  GPUs of its greatest speed within the share G / N, or its fewest where none is within
///     v  speed there over that on the GPUs that its row names; g is these and v 1 for a rigid job
///
/// Source: Jayaram Subramanya et al., "Sia", SOSP 2023, section 5.5, after Mahajan et al., "Themis", NSDI 2020. A job
/// that wants more than the share G / N takes turns on it, so its time alone is g N / G as long.
/// Leaves out: that a job of a real cluster cannot hold a part of a GPU. Returns 1 for a job without run.
[[nodiscard]] double finish_time_fairness(double time, const ClusterJob&, double mean_crowd, double cluster_gpus);

}  // namespace orrery
