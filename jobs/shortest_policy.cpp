#include "jobs/priority_policy.hpp"

namespace orrery {
namespace {

/// Both know how long a job still runs, which no real scheduler does. Of jobs with the same GPU time left, the one on
/// fewer GPUs goes first, since it was ahead until now.
class ShortestTime final : public PriorityPolicy {
 protected:
  JobRank rank(const ClusterState& state, JobNumber j) const override { return {state.work_left(j), 0, j}; }
};

class ShortestService final : public PriorityPolicy {
 protected:
  JobRank rank(const ClusterState& state, JobNumber j) const override {
    return {static_cast<GpuMicroseconds>(state.work_left(j)) * state.job(j).gpus, state.job(j).gpus, j};
  }
};

}  // namespace

std::unique_ptr<JobPolicy> shortest_time_policy() { return std::make_unique<ShortestTime>(); }
std::unique_ptr<JobPolicy> shortest_service_policy() { return std::make_unique<ShortestService>(); }

}  // namespace orrery
