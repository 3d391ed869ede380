#include <algorithm>
#include <optional>

#include "jobs/job_policy.hpp"

namespace orrery {
namespace {

class FitFirst final : public JobPolicy {
 public:
  void submitted(const ClusterState& state, JobNumber j) override { queue_.insert(state.job(j).gpus, {0, 0, j}); }
  void decide(ClusterState& state) override {
    // Where one job finds no place no later one of its size does, since places only become fewer.
    std::uint64_t most = state.free_gpus();
    while (const std::optional<JobRank> next = queue_.first(most)) {
      const std::uint32_t gpus = state.job(next->job).gpus;
      if (state.start(next->job)) {
        queue_.erase(gpus, *next);
        most = std::min(most, state.free_gpus());
      } else {
        most = gpus - 1;
      }
    }
  }

 private:
  JobQueue queue_;
};

}  // namespace

std::unique_ptr<JobPolicy> fit_first_policy() { return std::make_unique<FitFirst>(); }

}  // namespace orrery
