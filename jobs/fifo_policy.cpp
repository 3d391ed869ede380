#include <algorithm>
#include <deque>

#include "jobs/job_policy.hpp"

namespace orrery {
namespace {

class Fifo final : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber j) override {
    queue_.insert(std::lower_bound(queue_.begin(), queue_.end(), j), j);  // at the end, unless its node has failed
  }
  void decide(ClusterState& state) override {
    while (!queue_.empty() && state.start(queue_.front())) queue_.pop_front();
  }

 private:
  std::deque<JobNumber> queue_;
};

}  // namespace

std::unique_ptr<JobPolicy> fifo_policy() { return std::make_unique<Fifo>(); }

}  // namespace orrery
