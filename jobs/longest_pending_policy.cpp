#include <algorithm>
#include <deque>
#include <vector>

#include "jobs/job_policy.hpp"

namespace orrery {
namespace {

/// The order by waiting time is that of submission. What sets it apart from fifo is the loop of Tiresias's simulator:
/// it takes a job that starts out of the list that it walks, and so passes over the one behind it until the next event.
class LongestPending final : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber j) override {
    queue_.insert(std::lower_bound(queue_.begin(), queue_.end(), j), j);  // at the end, unless its node has failed
  }
  void decide(ClusterState& state) override {
    std::vector<JobNumber> passed;
    std::size_t at = 0;
    while (at < queue_.size() && state.start(queue_[at])) {
      if (at + 1 < queue_.size()) passed.push_back(queue_[at + 1]);
      at += 2;
    }
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(std::min(at, queue_.size())));
    queue_.insert(queue_.begin(), passed.begin(), passed.end());
  }

 private:
  std::deque<JobNumber> queue_;
};

}  // namespace

std::unique_ptr<JobPolicy> longest_pending_policy() { return std::make_unique<LongestPending>(); }

}  // namespace orrery
