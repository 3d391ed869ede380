#include "jobs/job_simulation.hpp"

#include <algorithm>
#include <queue>

namespace orrery {
namespace {

/// The end that a job has if nothing changes. It is out of date once `number` is not the job's latest.
struct ExpectedEnd {
  Microseconds at = 0;
  JobNumber job = 0;
  std::uint32_t number = 0;
  friend bool operator>(const ExpectedEnd& a, const ExpectedEnd& b) {
    return a.at != b.at ? a.at > b.at : a.job > b.job;
  }
};

class Simulation {
 public:
  Simulation(const JobWorkload& workload, const JobPolicyRow& policy, const JobSimulation& options)
      : options_(options),
        jobs_(workload.jobs),
        state_(workload, options.gpus_of_nodes, options.places, options.costs),
        policy_(policy.make()),
        latest_(jobs_.size()) {
    if (options.keep_stretches) state_.keep_stretches(&out_.stretches);
  }

  JobHistory run() {
    out_.begin = jobs_.empty() ? 0 : jobs_.front().submit;
    out_.gpus = state_.gpus();
    state_.advance(out_.begin);
    while (done_ < jobs_.size()) step();
    out_.end = state_.now();
    out_.jobs = state_.all();
    out_.busy = state_.busy();
    out_.crowd = state_.crowd_time();
    out_.hash = state_.history();
    if (options_.progress) options_.progress(done_, jobs_.size());
    return std::move(out_);
  }

 private:
  void drop_outdated() {
    while (!ends_.empty() && ends_.top().number != latest_[ends_.top().job]) ends_.pop();
  }

  void step() {
    drop_outdated();
    Microseconds next = policy_->next_look(state_);
    if (arrived_ < jobs_.size()) next = std::min(next, jobs_[arrived_].submit);
    if (!ends_.empty()) next = std::min(next, ends_.top().at);
    ORRERY_ASSERT(next != JobPolicy::never, "jobs wait and nothing will happen", done_);
    state_.advance(next);
    for (; !ends_.empty() && ends_.top().at == next; drop_outdated()) {
      const JobNumber j = ends_.top().job;
      ends_.pop();
      state_.finish(j);
      policy_->ended(state_, j);
      ++out_.events;
      if (++done_ % 1024 == 0 && options_.progress) options_.progress(done_, jobs_.size());
    }
    for (; arrived_ < jobs_.size() && jobs_[arrived_].submit == next; ++arrived_) {
      state_.submit(static_cast<JobNumber>(arrived_));
      policy_->submitted(state_, static_cast<JobNumber>(arrived_));
      ++out_.events;
    }
    out_.most_crowd = std::max(out_.most_crowd, state_.crowd());
    static_cast<void>(state_.take_changes());
    policy_->decide(state_);
    for (const JobNumber j : state_.take_changes()) {
      ++out_.events;
      ++latest_[j];
      if (state_.progress(j).phase == JobPhase::running) ends_.push({state_.end_of(j), j, latest_[j]});
    }
  }

  const JobSimulation& options_;
  const std::vector<ClusterJob>& jobs_;
  ClusterState state_;
  std::unique_ptr<JobPolicy> policy_;
  std::vector<std::uint32_t> latest_;
  std::priority_queue<ExpectedEnd, std::vector<ExpectedEnd>, std::greater<>> ends_;
  JobHistory out_;
  std::size_t arrived_ = 0, done_ = 0;
};

}  // namespace

double last_end_s(const JobWorkload& w, const JobCosts& costs) {
  double end = w.jobs.empty() ? 0.0 : seconds_of(w.jobs.back().submit);
  for (const ClusterJob& job : w.jobs) {
    std::int64_t slowest = full_speed;
    for (const JobSpeed& s : job.speeds) slowest = std::min(slowest, s.speed);
    const double speed =
        static_cast<double>(slowest) / full_speed * static_cast<double>(costs.scattered_speed) / full_speed;
    end += seconds_of(job.run) / speed;
  }
  return end;
}

JobHistory simulate_jobs(const JobWorkload& workload, const JobPolicyRow& policy, const JobSimulation& options) {
  return Simulation(workload, policy, options).run();
}

}  // namespace orrery
