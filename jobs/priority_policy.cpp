#include "jobs/priority_policy.hpp"

#include <algorithm>
#include <iterator>

namespace orrery {

void PriorityPolicy::submitted(const ClusterState& state, JobNumber j) {
  waiting_.insert(state.job(j).gpus, rank(state, j));
}

void PriorityPolicy::decide(ClusterState& state) {
  look(state);
  if (!waiting_.empty()) choose(state);
}

void PriorityPolicy::choose(ClusterState& state) {
  std::vector<JobRank> running;
  if (waiting_.demand() > state.free_gpus()) {
    for (const JobNumber j : state.running()) running.push_back(rank(state, j));
    std::sort(running.begin(), running.end());
  }
  std::uint64_t left = running.empty() ? state.free_gpus() : state.gpus();
  // The next of each size that waits.
  struct Head {
    std::uint32_t gpus;
    std::set<JobRank>::const_iterator next, end;
  };
  std::vector<Head> heads;
  for (const auto& [gpus, jobs] : waiting_.queues()) heads.push_back({gpus, jobs.begin(), jobs.end()});
  std::vector<JobRank> starts;
  std::vector<StoppedJob> stops;
  auto held = running.begin();
  for (;;) {
    Head* best = nullptr;
    for (Head& head : heads) {
      if (head.gpus > left) break;
      if (head.next != head.end && (best == nullptr || *head.next < *best->next)) best = &head;
    }
    if (held != running.end() && (best == nullptr || *held < *best->next)) {
      const std::uint32_t gpus = state.job(held->job).gpus;
      if (gpus <= left) {
        left -= gpus;
      } else {
        stops.push_back({held->job, state.progress(held->job).places});
      }
      ++held;
    } else if (best != nullptr) {
      left -= best->gpus;
      starts.push_back(*best->next++);
    } else {
      break;
    }
  }
  for (const StoppedJob& stopped : stops) state.stop(stopped.job);
  bool all_started = true;
  for (const JobRank& start : starts) {
    if (state.start(start.job)) {
      waiting_.erase(state.job(start.job).gpus, start);
    } else {
      all_started = false;
    }
  }
  for (const StoppedJob& stopped : stops) {
    // Where a chosen job has found no place, those that were stopped for it go on.
    const JobNumber j = stopped.job;
    if (!all_started && (state.take_back_stop(j, stopped.places) || state.start(j))) continue;
    waiting_.insert(state.job(j).gpus, rank(state, j));
  }
}

}  // namespace orrery
