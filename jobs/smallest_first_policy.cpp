#include "jobs/priority_policy.hpp"

namespace orrery {
namespace {

class SmallestFirst final : public PriorityPolicy {
 protected:
  JobRank rank(const ClusterState& state, JobNumber j) const override { return {state.job(j).gpus, 0, j}; }
};

}  // namespace

std::unique_ptr<JobPolicy> smallest_first_policy() { return std::make_unique<SmallestFirst>(); }

}  // namespace orrery
