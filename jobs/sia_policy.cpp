#include "jobs/sia_policy.hpp"

#include <algorithm>
#include <cmath>
#include <set>

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
  void submitted(const ClusterState&, JobNumber j) override { there_.insert(j); }
  void ended(const ClusterState&, JobNumber j) override { there_.erase(j); }
  Microseconds next_look(const ClusterState& state) const override {
    return there_.empty() ? never : (state.now() / round + 1) * round;
  }

  void decide(ClusterState& state) override {
    if (state.now() % round != 0) return;
    std::vector<JobNumber> jobs;
    std::vector<std::vector<JobSpeed>> speeds;  // of each list of choices, which begins with none
    std::vector<std::vector<CostedChoice>> choices;
    std::uint64_t room = state.gpus();
    for (const JobNumber j : there_) {
      if (state.progress(j).phase == JobPhase::running && state.restarting(j)) {
        room -= state.progress(j).gpus;
        continue;
      }
      jobs.push_back(j);
      speeds.push_back(speeds_here(state, j));
      choices.push_back(choices_of(state, j, speeds.back()));
    }
    const std::vector<std::uint32_t> chosen = least_cost_choice(choices, static_cast<std::uint32_t>(room));
    struct Start {
      JobNumber job;
      JobSpeed on;
    };
    std::vector<Start> starts;
    std::vector<StoppedJob> stops;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const JobSpeed on = speeds[i][chosen[i]];
      if (on.gpus == state.progress(jobs[i]).gpus) continue;
      if (state.progress(jobs[i]).phase == JobPhase::running) {
        stops.push_back({jobs[i], state.progress(jobs[i]).places});
        state.stop(jobs[i]);
      }
      if (on.gpus > 0) starts.push_back({jobs[i], on});
    }
    // The largest first, so that they get whole nodes.
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Start& a, const Start& b) { return a.on.gpus > b.on.gpus; });
    bool all_started = true;
    for (const Start& s : starts) all_started = state.start(s.job, s.on) && all_started;
    if (all_started) return;
    // Where a job has found no place, those that were stopped go on where they were, if they can.
    for (StoppedJob& s : stops) {
      if (state.progress(s.job).phase == JobPhase::waiting) state.take_back_stop(s.job, std::move(s.places));
    }
  }

 private:
  static constexpr Microseconds round = 60 * microseconds_per_second;

  /// What the job holds now comes first, since the first of equal choices is taken; 0 GPUs is none.
  static std::vector<JobSpeed> speeds_here(const ClusterState& state, JobNumber j) {
    std::vector<JobSpeed> out = speeds_of(state.job(j));
    if (!state.job(j).speeds.empty()) {
      const std::uint32_t node = state.node_gpus();
      const auto odd = [&](const JobSpeed& s) {
        const bool power = s.gpus < node && (s.gpus & (s.gpus - 1)) == 0;
        return s.gpus > state.gpus() || (!power && s.gpus % node != 0);
      };
      if (!std::all_of(out.begin(), out.end(), odd)) out.erase(std::remove_if(out.begin(), out.end(), odd), out.end());
    }
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

  std::set<JobNumber> there_;
};

}  // namespace

std::unique_ptr<JobPolicy> sia_policy() { return std::make_unique<Sia>(); }

}  // namespace orrery
