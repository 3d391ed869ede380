#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "jobs/cluster_job.hpp"

namespace orrery {

/// A job's number in its workload.
using JobNumber = std::uint32_t;

/// A job's place in an order: the least goes first. The job's number, which follows its submission, breaks ties.
struct JobRank {
  GpuMicroseconds key = 0;
  std::uint64_t second = 0;
  JobNumber job = 0;
  friend bool operator==(const JobRank&, const JobRank&) = default;
  friend bool operator<(const JobRank& a, const JobRank& b) {
    if (a.key != b.key) return a.key < b.key;
    return a.second != b.second ? a.second < b.second : a.job < b.job;
  }
};

/// Waiting jobs in an order, apart by their number of GPUs. So the first that is small enough is found among as many
/// heads as there are sizes, however long the queue is.
class JobQueue {
 public:
  using Queues = std::map<std::uint32_t, std::set<JobRank>>;  ///< by GPUs; none is empty

  void insert(std::uint32_t gpus, const JobRank& rank) {
    queues_[gpus].insert(rank);
    demand_ += gpus;
  }
  void erase(std::uint32_t gpus, const JobRank& rank) {
    const auto at = queues_.find(gpus);
    at->second.erase(rank);
    if (at->second.empty()) queues_.erase(at);
    demand_ -= gpus;
  }
  [[nodiscard]] bool empty() const { return queues_.empty(); }
  [[nodiscard]] const Queues& queues() const { return queues_; }
  /// GPUs that all of them want.
  [[nodiscard]] std::uint64_t demand() const { return demand_; }
  /// The first of the jobs that want at most `most` GPUs; empty where none is that small.
  [[nodiscard]] std::optional<JobRank> first(std::uint64_t most) const {
    std::optional<JobRank> best;
    for (const auto& [gpus, jobs] : queues_) {
      if (gpus > most) break;
      if (!best || *jobs.begin() < *best) best = *jobs.begin();
    }
    return best;
  }

 private:
  Queues queues_;
  std::uint64_t demand_ = 0;
};

}  // namespace orrery
