#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "jobs/first_short_job.hpp"
#include "jobs/job_policy.hpp"

namespace orrery {
namespace {

/// EASY: the first job in line gets a reservation, and others may pass it that do not delay it. It knows how long jobs
/// run, as if users asked for exactly their time. A job that may be scattered counts as if it were. The reservation
/// counts GPUs; where places are consolidated, it is for nodes that the first job can have.
class Backfill final : public JobPolicy {
 public:
  void submitted(const ClusterState& state, JobNumber j) override {
    queue_[state.job(j).gpus].push(j, state.longest_hold(j));
    order_.insert(j);
  }

  void failed(const ClusterState& state, JobNumber j) override {
    queue_[state.job(j).gpus].put_back(j, state.longest_hold(j));
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
    /// The free GPUs then, before it starts; only where places are consolidated, since otherwise numbers suffice.
    std::optional<NodePool> pool = {};
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
    Reservation out{state.now(), state.free_gpus()};
    if (state.rule() == PlaceRule::consolidated) out.pool = state.pool();
    for (const auto& [end, j] : ends) {
      if (end > out.at && fits(out, wanted)) break;
      out.at = end;
      out.spare += state.job(j).gpus;
      if (out.pool) out.pool->give_back(state.progress(j).places);
    }
    // While nodes are down there may be no such time; then nobody delays the first.
    if (!fits(out, wanted)) return {JobPolicy::never, 0, std::move(out.pool)};
    out.spare -= wanted;
    return out;
  }

  static bool fits(Reservation& r, std::uint32_t wanted) {
    if (!r.pool) return r.spare >= wanted;
    const std::vector<NodeShare> places = r.pool->take(wanted, PlaceRule::consolidated);
    r.pool->give_back(places);
    return !places.empty();
  }

  /// Whether a job that outlasts the reservation leaves the first job its nodes; what it would have is taken then.
  static bool leaves_nodes(Reservation& r, const ClusterState& state, std::uint32_t gpus, std::uint32_t wanted) {
    if (!r.pool) return true;
    const std::vector<NodeShare> places = NodePool(state.pool()).take(gpus, PlaceRule::consolidated);
    if (places.empty()) return true;  // it does not start
    ORRERY_ASSERT(r.pool->take(places), gpus);
    if (fits(r, wanted)) return true;
    r.pool->give_back(places);
    return false;
  }

  void backfill(ClusterState& state, Reservation reserved) {
    std::set<std::uint32_t> without_place, in_the_way;  // numbers of GPUs
    const JobNumber first = *order_.begin();
    const Microseconds in_time = reserved.at - state.now();
    for (;;) {
      std::optional<JobNumber> next;
      for (const auto& [gpus, jobs] : queue_) {
        if (gpus > state.free_gpus()) break;
        if (without_place.count(gpus) > 0) continue;
        const bool spare = gpus <= reserved.spare && in_the_way.count(gpus) == 0;
        const std::optional<JobNumber> job = jobs.first(spare ? FirstShortJob::any : in_time);
        if (job && *job != first && (!next || *job < *next)) next = job;
      }
      if (!next) return;
      const std::uint32_t gpus = state.job(*next).gpus;
      const bool late = state.longest_hold(*next) > in_time;
      if (late && !leaves_nodes(reserved, state, gpus, state.job(first).gpus)) {
        in_the_way.insert(gpus);
        continue;
      }
      if (!state.start(*next)) {
        without_place.insert(gpus);
        continue;
      }
      if (state.end_of(*next) > reserved.at) reserved.spare -= gpus;
      leave(state, *next);
    }
  }

  std::map<std::uint32_t, FirstShortJob> queue_;  ///< by GPUs
  std::set<JobNumber> order_;
};

}  // namespace

std::unique_ptr<JobPolicy> backfill_policy() { return std::make_unique<Backfill>(); }

}  // namespace orrery
