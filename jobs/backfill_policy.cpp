#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "jobs/first_short_job.hpp"
#include "jobs/job_policy.hpp"

namespace orrery {
namespace {

/// EASY: the first job in line gets a reservation, and others may pass it that do not delay it. It knows how long jobs
/// run, as if users asked for exactly their time. The reservation counts GPUs, not places.
class Backfill final : public JobPolicy {
 public:
  void submitted(const ClusterState& state, JobNumber j) override {
    queue_[state.job(j).gpus].push(j, state.job(j).run);
    order_.insert(j);
  }

  void decide(ClusterState& state) override {
    while (!order_.empty() && state.start(*order_.begin())) leave(state, *order_.begin());
    if (!order_.empty()) backfill(state, reserve(state));
  }

 private:
  struct Reservation {
    Microseconds at = 0;      ///< when the first in line starts at the latest
    std::uint64_t spare = 0;  ///< GPUs that it leaves free then
  };

  void leave(const ClusterState& state, JobNumber j) {
    queue_[state.job(j).gpus].erase(j);
    order_.erase(j);
  }

  [[nodiscard]] Reservation reserve(const ClusterState& state) const {
    std::vector<std::pair<Microseconds, JobNumber>> ends;
    for (const JobNumber j : state.running()) ends.emplace_back(state.end_of(j), j);
    std::sort(ends.begin(), ends.end());
    const std::uint32_t wanted = state.job(*order_.begin()).gpus;
    std::uint64_t free = state.free_gpus();
    Microseconds at = state.now();
    for (const auto& [end, j] : ends) {
      if (free >= wanted && end > at) break;
      free += state.job(j).gpus;
      at = end;
    }
    return {at, free - wanted};
  }

  void backfill(ClusterState& state, Reservation reserved) {
    std::set<std::uint32_t> without_place;
    const JobNumber first = *order_.begin();
    for (;;) {
      std::optional<JobNumber> next;
      for (const auto& [gpus, jobs] : queue_) {
        if (gpus > state.free_gpus()) break;
        if (without_place.count(gpus) > 0) continue;
        const Microseconds limit = gpus <= reserved.spare ? longest_time : reserved.at - state.now();
        const std::optional<JobNumber> job = jobs.first(limit);
        if (job && *job != first && (!next || *job < *next)) next = job;
      }
      if (!next) return;
      const ClusterJob& job = state.job(*next);
      if (!state.start(*next)) {
        without_place.insert(job.gpus);
        continue;
      }
      if (state.end_of(*next) > reserved.at) reserved.spare -= std::min<std::uint64_t>(job.gpus, reserved.spare);
      leave(state, *next);
    }
  }

  std::map<std::uint32_t, FirstShortJob> queue_;  ///< by GPUs
  std::set<JobNumber> order_;
};

}  // namespace

std::unique_ptr<JobPolicy> backfill_policy() { return std::make_unique<Backfill>(); }

}  // namespace orrery
