#include "jobs/sia_policy.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "jobs/change_gpus.hpp"
#include "jobs/job_policy.hpp"
#include "jobs/least_cost_choice.hpp"

namespace orrery {

std::int64_t sia_cost(double speed_over_least, double factor) {
  const double gain = factor * speed_over_least;
  return gain > 0.0 ? std::llround(100.0 * std::fmin(1.0 / std::sqrt(gain), 3000.0)) : 300'000;
}

double sia_restart_factor(double age_s, double restarts, double restart_s) {
  if (age_s < restart_s || age_s <= 0.0) return 1.0;
  return std::fmax(age_s - restarts * restart_s, 0.0) / (age_s + restart_s);
}

namespace {

/// Decides at whole minutes. The program is solved exactly. Elastic jobs get powers of two within a node, and whole
/// nodes. A job that restarts keeps its GPUs.
class Sia final : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber j) override { most_held_.emplace(j, 0U); }
  void ended(const ClusterState&, JobNumber j) override { most_held_.erase(j); }
  Microseconds next_look(const ClusterState& state) const override {
    return most_held_.empty() ? never : (state.now() / round + 1) * round;
  }

  void decide(ClusterState& state) override {
    if (state.now() % round != 0) return;
    std::vector<JobNumber> jobs;
    std::vector<std::vector<JobSpeed>> speeds;  // of each list of choices, which begins with none
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
      choices.push_back(choices_of(state, j, speeds.back()));
    }
    const std::vector<std::uint32_t> chosen = least_cost_choice(choices, static_cast<std::uint32_t>(room));
    std::vector<ChangedGpus> changes;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const JobSpeed on = speeds[i][chosen[i]];
      if (on.gpus != state.progress(jobs[i]).gpus) changes.push_back({jobs[i], on});
    }
    change_gpus(state, std::move(changes));
  }

 private:
  static constexpr Microseconds round = 60 * microseconds_per_second;

  /// What the job holds now comes first, since the first of equal choices is taken; 0 GPUs is none.
  static std::vector<JobSpeed> speeds_here(const ClusterState& state, JobNumber j, std::uint32_t most) {
    std::vector<JobSpeed> out = speeds_of(state.job(j));
    if (!state.job(j).speeds.empty()) {
      const std::uint32_t node = state.node_gpus();
      const auto odd = [&](const JobSpeed& s) {
        const bool power = s.gpus < node && (s.gpus & (s.gpus - 1)) == 0;
        return s.gpus > state.all_gpus() || (!power && s.gpus % node != 0);
      };
      if (!std::all_of(out.begin(), out.end(), odd)) out.erase(std::remove_if(out.begin(), out.end(), odd), out.end());
    }
    limit_growth(out, most);
    out.insert(out.begin(), JobSpeed{0, 0});
    const std::uint32_t held = state.progress(j).gpus;
    std::stable_partition(out.begin(), out.end(), [held](const JobSpeed& s) { return s.gpus == held; });
    return out;
  }

  static std::vector<CostedChoice> choices_of(const ClusterState& state, JobNumber j,
                                              const std::vector<JobSpeed>& speeds) {
    const JobProgress& p = state.progress(j);
    std::int64_t least = 0;
    for (const JobSpeed& s : speeds) least = s.gpus > 0 && (least == 0 || s.speed < least) ? s.speed : least;
    const double factor =
        sia_restart_factor(seconds_of(state.now() - state.job(j).submit), p.stops, seconds_of(state.restart_of(j)));
    std::vector<CostedChoice> out;
    for (const JobSpeed& s : speeds) {
      const bool changes = p.phase == JobPhase::running && s.gpus != p.gpus;
      const double gain = static_cast<double>(s.speed) / static_cast<double>(std::max<std::int64_t>(1, least));
      out.push_back({s.gpus, s.gpus == 0 ? sia_cost_without_gpus : sia_cost(gain, changes ? factor : 1.0)});
    }
    return out;
  }

  std::map<JobNumber, std::uint32_t> most_held_;
};

}  // namespace

std::unique_ptr<JobPolicy> sia_policy() { return std::make_unique<Sia>(); }

}  // namespace orrery
