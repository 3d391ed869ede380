#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "jobs/cluster_job.hpp"
#include "jobs/job_queue.hpp"
#include "jobs/node_pool.hpp"

namespace orrery {

/// What changes a job's time on the cluster, beside the policy.
struct JobCosts {
  Microseconds restart = 0;  ///< GPUs are held without progress so long when a stopped job goes on
  /// Speed of a job on more nodes than it needs, in parts of `full_speed`.
  std::int64_t scattered_speed = full_speed;
  /// Work between two checkpoints: what a job has done since the last one is gone when a node of it fails. A job that
  /// the policy stops loses nothing.
  Microseconds save_interval = 3600 * microseconds_per_second;
  friend bool operator==(const JobCosts&, const JobCosts&) = default;
};

enum class JobPhase : std::uint8_t { not_yet, waiting, running, ended };

/// A job on its way through the cluster.
struct JobProgress {
  JobPhase phase = JobPhase::not_yet;
  std::int64_t work_left = 0;  ///< microseconds of `run` x full_speed
  Microseconds restart_left = 0;
  std::uint32_t gpus = 0;  ///< that it holds
  std::int64_t speed = full_speed;
  Microseconds since = 0;         ///< up to here `work_left`, `restart_left`, `used` and `lost` are counted
  Microseconds first_start = -1;  ///< -1: never
  Microseconds started = -1;      ///< of the stretch at hand
  Microseconds end = -1;
  std::int64_t work_at_start = 0;  ///< `work_left` when the stretch at hand began
  std::uint32_t stops = 0;         ///< times that the policy took its GPUs
  std::uint32_t failures = 0;      ///< times that a node of it failed
  GpuMicroseconds used = 0;        ///< GPU time, restarts included
  GpuMicroseconds lost = 0;        ///< of it in restarts
  GpuMicroseconds undone = 0;      ///< of it in work that a failure undid
  GpuMicroseconds crowd = 0;       ///< jobs that wanted GPUs, summed over its time from submission to end
  std::vector<NodeShare> places;
};

/// A stretch of time in which a job had the same GPUs.
struct JobStretch {
  JobNumber job = 0;
  Microseconds begin = 0, end = 0;
  std::vector<NodeShare> places;
  friend bool operator==(const JobStretch&, const JobStretch&) = default;
};

/// A job that a policy has stopped, and the places that it had.
struct StoppedJob {
  JobNumber job = 0;
  std::vector<NodeShare> places;
};

/// The cluster at an instant: what a policy sees, and what it may do.
class ClusterState {
 public:
  ClusterState(const JobWorkload&, const std::vector<std::uint32_t>& gpus_of_nodes, PlaceRule, JobCosts);

  [[nodiscard]] Microseconds now() const { return now_; }
  [[nodiscard]] const ClusterJob& job(JobNumber j) const { return jobs_[j]; }
  [[nodiscard]] const JobProgress& progress(JobNumber j) const { return progress_[j]; }
  /// The order is not that of starts, but the same input gives the same order.
  [[nodiscard]] const std::vector<JobNumber>& running() const { return running_; }
  [[nodiscard]] std::uint64_t free_gpus() const { return pool_.free_gpus(); }
  /// GPUs of the nodes that are up.
  [[nodiscard]] std::uint64_t gpus() const { return pool_.gpus() - down_; }
  /// GPUs of all nodes.
  [[nodiscard]] std::uint64_t all_gpus() const { return pool_.gpus(); }
  /// Work left at full speed, in microseconds x full_speed, without restarts.
  [[nodiscard]] std::int64_t work_left(JobNumber) const;
  /// GPU time that a job has had, restarts included.
  [[nodiscard]] GpuMicroseconds attained(JobNumber) const;
  /// When a running job ends if it keeps its GPUs.
  [[nodiscard]] Microseconds end_of(JobNumber) const;

  /// Whether a running job has not yet come to work since it got its GPUs.
  [[nodiscard]] bool restarting(JobNumber) const;
  [[nodiscard]] Microseconds restart_of(JobNumber j) const { return jobs_[j].restart.value_or(costs_.restart); }
  /// The time for which a waiting job holds its GPUs before it works.
  [[nodiscard]] Microseconds wait_of(JobNumber j) const {
    return progress_[j].stops + progress_[j].failures > 0 ? restart_of(j) : jobs_[j].startup;
  }
  /// The time for which a waiting job holds its GPUs at most, if nothing stops it: it may be scattered.
  [[nodiscard]] Microseconds longest_hold(JobNumber) const;
  /// The free GPUs of each node now.
  [[nodiscard]] const NodePool& pool() const { return pool_; }
  [[nodiscard]] PlaceRule rule() const { return rule_; }
  /// GPUs of the largest node.
  [[nodiscard]] std::uint32_t node_gpus() const { return node_gpus_; }

  /// Gives a waiting job GPUs; false where the rule of places finds none. Requires one of speeds_of(job).
  bool start(JobNumber, const JobSpeed&);
  /// The same for the GPUs that its row names.
  bool start(JobNumber j) { return start(j, {jobs_[j].gpus, full_speed}); }
  /// The same, but on no node that another job on several nodes has, where it needs several itself.
  bool start_apart(JobNumber, const JobSpeed&);
  /// Takes the GPUs of a running job, which then waits.
  void stop(JobNumber);
  /// Takes back a stop of this instant: the job goes on where it was, without a restart. False, with nothing done,
  /// where another job has some of these places, which it had.
  bool take_back_stop(JobNumber, std::vector<NodeShare> places);

  // For the simulation.
  void advance(Microseconds to);
  void submit(JobNumber);
  void finish(JobNumber);
  [[nodiscard]] const std::vector<JobProgress>& all() const { return progress_; }
  /// Jobs whose GPUs have changed since take_changes() was called; a job may stand there twice.
  [[nodiscard]] std::vector<JobNumber> take_changes();
  /// The jobs on a node that is up. Each loses all its GPUs, and waits to go on from its last checkpoint; then the node
  /// is down.
  [[nodiscard]] std::vector<JobNumber> fail_node(std::uint32_t node);
  void repair_node(std::uint32_t node);
  /// Stretches that have ended, where they are kept.
  void keep_stretches(std::vector<JobStretch>* into) { stretches_ = into; }
  [[nodiscard]] std::uint32_t crowd() const { return crowd_; }              ///< jobs that want GPUs now
  [[nodiscard]] GpuMicroseconds crowd_time() const { return crowd_time_; }  ///< summed over time
  [[nodiscard]] GpuMicroseconds busy() const { return busy_; }              ///< GPU time of nodes, summed over time
  [[nodiscard]] std::uint64_t history() const { return history_; }

 private:
  enum class Event : std::uint8_t { submit, start, stop, end, fail, node_down, node_up };
  void count(JobNumber);
  void leave(JobNumber, Event);
  void enter(JobNumber);
  void record(Event, JobNumber);

  std::span<const ClusterJob> jobs_;
  NodePool pool_;
  PlaceRule rule_;
  JobCosts costs_;
  std::uint32_t node_gpus_;
  Microseconds now_ = 0;
  std::vector<JobProgress> progress_;
  std::vector<JobNumber> running_;
  std::vector<std::uint32_t> running_at_;  ///< index in running_
  std::vector<JobNumber> changes_;
  std::vector<JobStretch>* stretches_ = nullptr;
  std::uint32_t crowd_ = 0;
  GpuMicroseconds crowd_time_ = 0, busy_ = 0;
  std::uint64_t history_ = 0;
  std::uint64_t down_ = 0;  ///< GPUs of nodes that are down
  std::vector<NodeShare> down_nodes_ = {};
};

}  // namespace orrery
