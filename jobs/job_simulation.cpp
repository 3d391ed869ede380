#include "jobs/job_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <queue>

#include "core/base/random.hpp"

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

/// When a node fails, or comes back.
struct NodeChange {
  Microseconds at = 0;
  std::uint32_t node = 0;
  std::uint32_t failures = 0;  ///< of the node before
  bool repaired = false;
  friend bool operator>(const NodeChange& a, const NodeChange& b) {
    return a.at != b.at ? a.at > b.at : a.node > b.node;
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
    out_.gpus = state_.all_gpus();
    state_.advance(out_.begin);
    for (std::uint32_t n = 0; n < options_.gpus_of_nodes.size(); ++n) expect_failure(n, 0);
    while (done_ < jobs_.size()) {
      step();
      if (options_.progress && (out_.events - told_ >= 1024 || ++silent_ == 1024)) {
        told_ = out_.events;
        silent_ = 0;
        options_.progress(done_, jobs_.size());
      }
    }
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

  void expect_failure(std::uint32_t node, std::uint32_t before) {
    const NodeFailures& f = options_.failures;
    if (f.node_failures_per_s <= 0.0) return;
    const double wait_s = -std::log1p(-random_uniform(f.seed, node, before)) / f.node_failures_per_s;
    // What lies beyond all jobs is no matter.
    if (wait_s > latest_end_s) return;
    const auto wait = static_cast<Microseconds>(wait_s * static_cast<double>(microseconds_per_second));
    node_changes_.push({state_.now() + wait, node, before, false});
  }

  void change_node(const NodeChange& change) {
    if (change.repaired) {
      state_.repair_node(change.node);
      expect_failure(change.node, change.failures);
      return;
    }
    ++out_.node_failures;
    for (const JobNumber j : state_.fail_node(change.node)) {
      ++latest_[j];
      policy_->failed(state_, j);
    }
    node_changes_.push(
        {state_.now() + std::max<Microseconds>(1, options_.failures.repair), change.node, change.failures + 1, true});
  }

  void step() {
    drop_outdated();
    Microseconds next = policy_->next_look(state_);
    if (arrived_ < jobs_.size()) next = std::min(next, jobs_[arrived_].submit);
    if (!ends_.empty()) next = std::min(next, ends_.top().at);
    if (!node_changes_.empty()) next = std::min(next, node_changes_.top().at);
    ORRERY_ASSERT(next != JobPolicy::never, "jobs wait and nothing will happen", done_);
    state_.advance(next);
    for (; !ends_.empty() && ends_.top().at == next; drop_outdated()) {
      const JobNumber j = ends_.top().job;
      ends_.pop();
      state_.finish(j);
      policy_->ended(state_, j);
      ++out_.events;
      ++done_;
    }
    while (!node_changes_.empty() && node_changes_.top().at == next) {
      const NodeChange change = node_changes_.top();
      node_changes_.pop();
      change_node(change);
      ++out_.events;
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
  std::priority_queue<NodeChange, std::vector<NodeChange>, std::greater<>> node_changes_;
  JobHistory out_;
  std::size_t arrived_ = 0, done_ = 0;
  std::uint64_t told_ = 0, silent_ = 0;  ///< events when progress was told the last time, and instants since
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

double up_share(const NodeFailures& f, std::size_t nodes, std::size_t needed) {
  const double down = f.node_failures_per_s * seconds_of(f.repair);
  if (down <= 0.0) return 1.0;
  const auto choose = [](double n, double k) {
    return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
  };
  const auto n = static_cast<double>(nodes);
  double share = 0.0;
  for (std::size_t up = needed; up <= nodes; ++up) {
    const auto k = static_cast<double>(up);
    share += std::exp(choose(n, k) + (n - k) * std::log(down) - n * std::log1p(down));
  }
  return std::fmin(1.0, share);
}

JobHistory simulate_jobs(const JobWorkload& workload, const JobPolicyRow& policy, const JobSimulation& options) {
  return Simulation(workload, policy, options).run();
}

}  // namespace orrery
