#include "jobs/gavel_policy.hpp"

#include <algorithm>
#include <set>

#include "jobs/change_gpus.hpp"
#include "jobs/job_policy.hpp"

namespace orrery {

std::vector<double> gavel_shares(const std::vector<std::uint32_t>& gpus_of_jobs, std::uint64_t gpus) {
  std::vector<std::uint32_t> sorted = gpus_of_jobs;
  std::sort(sorted.begin(), sorted.end());
  auto left = static_cast<double>(gpus);
  double level = sorted.empty() ? 0.0 : sorted.back();
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double equal = left / static_cast<double>(sorted.size() - i);
    if (sorted[i] > equal) {
      level = equal;
      break;
    }
    left -= sorted[i];
  }
  std::vector<double> out;
  for (const std::uint32_t g : gpus_of_jobs) out.push_back(std::min(1.0, level / g));
  return out;
}

namespace {

/// Decides at whole rounds. A job's priority is its share over the time that it has had; jobs get GPUs in this order
/// as they fit.
class Gavel final : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber j) override { there_.insert(j); }
  void ended(const ClusterState&, JobNumber j) override { there_.erase(j); }
  Microseconds next_look(const ClusterState& state) const override {
    // While none waits, a round would change nothing.
    return there_.size() == state.running().size() ? never : (state.now() / round + 1) * round;
  }

  void decide(ClusterState& state) override {
    if (state.now() % round != 0 || there_.size() == state.running().size()) return;
    const std::vector<JobNumber> jobs(there_.begin(), there_.end());
    std::vector<std::uint32_t> gpus;
    for (const JobNumber j : jobs) gpus.push_back(state.job(j).gpus);
    const std::vector<double> shares = gavel_shares(gpus, state.gpus());
    struct Ranked {
      double priority;
      JobNumber job;
    };
    std::vector<Ranked> order;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      // Half a round more, so that the priority of a new job is finite (Gavel's scheduler.py).
      const double had = seconds_of(state.attained(jobs[i])) / gpus[i] + seconds_of(round) / 2.0;
      order.push_back({shares[i] / had, jobs[i]});
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Ranked& a, const Ranked& b) { return a.priority > b.priority; });
    std::vector<ChangedGpus> changes;
    std::uint64_t left = state.gpus();
    for (const Ranked& r : order) {
      const std::uint32_t wants = state.job(r.job).gpus;
      const bool runs = state.progress(r.job).phase == JobPhase::running, chosen = wants <= left;
      if (chosen) left -= wants;
      if (chosen != runs) changes.push_back({r.job, chosen ? JobSpeed{wants, full_speed} : JobSpeed{0, 0}});
    }
    change_gpus(state, std::move(changes));
  }

 private:
  static constexpr Microseconds round = 360 * microseconds_per_second;
  std::set<JobNumber> there_;
};

}  // namespace

std::unique_ptr<JobPolicy> gavel_policy() { return std::make_unique<Gavel>(); }

}  // namespace orrery
