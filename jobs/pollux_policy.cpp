#include "jobs/pollux_policy.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "jobs/change_gpus.hpp"
#include "jobs/job_policy.hpp"
#include "jobs/least_cost_choice.hpp"
#include "jobs/sia_policy.hpp"

namespace orrery {

std::int64_t pollux_cost(double speed_over_fair, double factor) {
  return std::llround(1e6 / (factor * speed_over_fair + 1e-3));
}

double speed_between(const std::vector<JobSpeed>& speeds, double gpus) {
  const auto above = std::find_if(speeds.begin(), speeds.end(), [gpus](const JobSpeed& s) { return s.gpus >= gpus; });
  if (above == speeds.end()) return static_cast<double>(speeds.back().speed);
  if (above == speeds.begin()) return static_cast<double>(above->speed) * gpus / above->gpus;
  const JobSpeed &a = *(above - 1), &b = *above;
  return std::lerp(static_cast<double>(a.speed), static_cast<double>(b.speed), (gpus - a.gpus) / (b.gpus - a.gpus));
}

namespace {

/// Decides at whole minutes. Its authors search by genetics over GPUs of nodes; here the numbers of GPUs are chosen
/// exactly, and jobs on several nodes are then placed apart from each other.
class Pollux final : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber j) override { most_held_.emplace(j, 0U); }
  void ended(const ClusterState&, JobNumber j) override { most_held_.erase(j); }
  Microseconds next_look(const ClusterState& state) const override {
    return most_held_.empty() ? never : (state.now() / round + 1) * round;
  }

  void decide(ClusterState& state) override {
    if (state.now() % round != 0) return;
    // With all nodes down there is no fair share, and no job runs.
    if (state.gpus() == 0) return;
    const double share = std::ceil(static_cast<double>(state.gpus()) / static_cast<double>(most_held_.size()));
    std::vector<JobNumber> jobs;
    std::vector<std::vector<JobSpeed>> speeds;
    std::vector<std::vector<CostedChoice>> choices;
    std::uint64_t room = state.gpus();
    for (auto& [j, most] : most_held_) {
      most = std::max(most, state.progress(j).gpus);
      if (state.progress(j).phase == JobPhase::running && state.restarting(j)) {
        room -= state.progress(j).gpus;
        continue;
      }
      jobs.push_back(j);
      speeds.push_back(speeds_here(state, j, most));
      choices.push_back(choices_of(state, j, speeds.back(), share));
    }
    const std::vector<std::uint32_t> chosen = least_cost_choice(choices, static_cast<std::uint32_t>(room));
    std::vector<ChangedGpus> changes;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const JobSpeed on = speeds[i][chosen[i]];
      if (on.gpus != state.progress(jobs[i]).gpus) changes.push_back({jobs[i], on});
    }
    change_gpus(state, std::move(changes), Interference::avoided);
  }

 private:
  static constexpr Microseconds round = 60 * microseconds_per_second;

  /// What the job holds now comes first, since the first of equal choices is taken; 0 GPUs is none.
  static std::vector<JobSpeed> speeds_here(const ClusterState& state, JobNumber j, std::uint32_t most) {
    std::vector<JobSpeed> out = speeds_within(state.job(j), state.all_gpus());
    limit_growth(out, most);
    out.insert(out.begin(), JobSpeed{0, 0});
    const std::uint32_t held = state.progress(j).gpus;
    std::stable_partition(out.begin(), out.end(), [held](const JobSpeed& s) { return s.gpus == held; });
    return out;
  }

  static std::vector<CostedChoice> choices_of(const ClusterState& state, JobNumber j,
                                              const std::vector<JobSpeed>& speeds, double share) {
    const JobProgress& p = state.progress(j);
    const double fair = speed_between(speeds_within(state.job(j), state.all_gpus()), share);
    const double factor = sia_restart_factor(seconds_of(state.now() - state.job(j).submit), p.stops, restart_s);
    std::vector<CostedChoice> out;
    for (const JobSpeed& s : speeds) {
      const bool changes = p.phase == JobPhase::running && s.gpus != p.gpus;
      out.push_back({s.gpus, pollux_cost(static_cast<double>(s.speed) / fair, changes ? factor : 1.0)});
    }
    return out;
  }

  static constexpr double restart_s = 30.0;  ///< that it assumes of every job
  std::map<JobNumber, std::uint32_t> most_held_;
};

}  // namespace

std::unique_ptr<JobPolicy> pollux_policy() { return std::make_unique<Pollux>(); }

}  // namespace orrery
