#include "jobs/marginal_policy.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "jobs/change_gpus.hpp"
#include "jobs/job_figures.hpp"
#include "jobs/least_cost_choice.hpp"

namespace orrery {

std::int64_t marginal_worth(double change_s, double work_left_s, double speed) {
  if (speed <= 0.0) return 0;
  return std::llround(1e9 / std::fmax(change_s + work_left_s / speed, 1.0));
}

double expected_fairness(const ClusterState& state, JobNumber j, double left_s) {
  const double time = seconds_of(state.now() - state.job(j).submit) + left_s;
  const double crowd = seconds_of(state.crowd_time() + state.progress(j).crowd) + state.crowd() * left_s;
  return time > 0.0 ? finish_time_fairness(time, state.job(j), crowd / time, static_cast<double>(state.gpus())) : 1.0;
}

namespace {

class Marginal final : public JobPolicy {
 public:
  void submitted(const ClusterState&, JobNumber j) override { there_.insert(j); }
  void ended(const ClusterState&, JobNumber j) override { there_.erase(j); }

  void decide(ClusterState& state) override {
    std::vector<Considered> all;
    for (const JobNumber j : there_) all.push_back(considered(state, j));
    require_for_late(state, all);
    std::vector<std::vector<CostedChoice>> choices;
    for (const Considered& c : all) choices.push_back(choices_of(c));
    const std::vector<std::uint32_t> chosen = least_cost_choice(choices, static_cast<std::uint32_t>(state.gpus()));
    std::vector<ChangedGpus> changes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const JobSpeed on = all[i].speeds[chosen[i]];
      if (on.gpus != state.progress(all[i].job).gpus) changes.push_back({all[i].job, on});
    }
    change_gpus(state, std::move(changes));
  }

 private:
  struct Considered {
    JobNumber job = 0;
    std::vector<JobSpeed> speeds;  ///< what it holds first, since the first of equal choices is taken; 0 GPUs is none
    std::vector<std::int64_t> worth;
    double late = 0.0;        ///< expected fairness, if it goes on with an equal share now
    std::uint32_t share = 0;  ///< GPUs of that share
    bool required = false;
  };

  static Considered considered(const ClusterState& state, JobNumber j) {
    const JobProgress& p = state.progress(j);
    Considered c;
    c.job = j;
    c.speeds = speeds_within(state.job(j), state.all_gpus());
    const double left_s = seconds_of(state.work_left(j)) / static_cast<double>(full_speed);
    const double start_s = seconds_of(p.phase == JobPhase::running ? state.restart_of(j) : state.wait_of(j));
    JobSpeed fair = c.speeds.front();
    for (const JobSpeed& s : c.speeds) {
      if (std::uint64_t{s.gpus} * state.crowd() <= state.gpus() && s.speed > fair.speed) fair = s;
    }
    c.share = fair.gpus;
    c.late = expected_fairness(state, j, left_s * static_cast<double>(full_speed) / static_cast<double>(fair.speed));
    c.speeds.insert(c.speeds.begin(), JobSpeed{0, 0});
    std::stable_partition(c.speeds.begin(), c.speeds.end(), [&](const JobSpeed& s) { return s.gpus == p.gpus; });
    for (const JobSpeed& s : c.speeds) {
      const bool stays = p.phase == JobPhase::running && s.gpus == p.gpus;
      const double speed = static_cast<double>(s.speed) / static_cast<double>(full_speed);
      const double change_s =
          stays ? seconds_of(std::max<Microseconds>(0, p.since + p.restart_left - state.now())) : start_s;
      c.worth.push_back(s.gpus == 0 ? 0 : marginal_worth(change_s, left_s, speed));
    }
    return c;
  }

  /// The jobs that would end later than on an equal share must have GPUs, the latest first, as long as all of them fit.
  static void require_for_late(const ClusterState& state, std::vector<Considered>& all) {
    std::vector<Considered*> late;
    for (Considered& c : all) {
      if (c.late > 1.0) late.push_back(&c);
    }
    std::stable_sort(late.begin(), late.end(),
                     [](const Considered* a, const Considered* b) { return a->late > b->late; });
    std::uint64_t left = state.gpus();
    for (Considered* c : late) {
      if (c->share > left) continue;
      left -= c->share;
      c->required = true;
    }
  }

  static std::vector<CostedChoice> choices_of(const Considered& c) {
    std::vector<CostedChoice> out;
    for (std::size_t i = 0; i < c.speeds.size(); ++i) {
      const std::int64_t too_few = c.required && c.speeds[i].gpus < c.share ? behind : 0;
      out.push_back({c.speeds[i].gpus, too_few - c.worth[i]});
    }
    return out;
  }

  /// More than the worths of ten thousand jobs together; one is at most 10^9.
  static constexpr std::int64_t behind = 10'000'000'000'000;
  std::set<JobNumber> there_;
};

}  // namespace

std::unique_ptr<JobPolicy> marginal_policy() { return std::make_unique<Marginal>(); }

}  // namespace orrery
