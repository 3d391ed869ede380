#include "jobs/cluster_state.hpp"

#include <algorithm>

#include "core/base/random.hpp"

namespace orrery {

ClusterState::ClusterState(const JobWorkload& workload, const std::vector<std::uint32_t>& gpus_of_nodes, PlaceRule rule,
                           JobCosts costs)
    : jobs_(workload.jobs),
      pool_(gpus_of_nodes),
      rule_(rule),
      costs_(costs),
      node_gpus_(*std::max_element(gpus_of_nodes.begin(), gpus_of_nodes.end())) {
  progress_.resize(jobs_.size());
  running_at_.resize(jobs_.size());
  for (std::size_t j = 0; j < jobs_.size(); ++j) progress_[j].work_left = jobs_[j].run * full_speed;
}

void ClusterState::record(Event event, JobNumber j) {
  history_ = mix(history_ ^ static_cast<std::uint64_t>(now_));
  history_ = mix(history_ ^ (std::uint64_t{j} << 8U | static_cast<std::uint64_t>(event)));
  if (event != Event::start) return;
  for (const NodeShare& share : progress_[j].places) {
    history_ = mix(history_ ^ (std::uint64_t{share.node} << 32U | share.gpus));
  }
}

void ClusterState::advance(Microseconds to) {
  ORRERY_ASSERT(to >= now_, to, now_);
  const GpuMicroseconds span = to - now_;
  crowd_time_ += span * crowd_;
  busy_ += span * static_cast<GpuMicroseconds>(gpus() - pool_.free_gpus());
  now_ = to;
}

namespace {

struct Counted {
  std::int64_t work_left;
  Microseconds restart;  ///< time of the span that went into the restart
};

/// A running job some time after its progress was counted.
Counted after(const JobProgress& p, Microseconds span) {
  const Microseconds restart = std::min(span, p.restart_left);
  const auto done = static_cast<GpuMicroseconds>(span - restart) * p.speed;
  return {done >= p.work_left ? 0 : p.work_left - static_cast<std::int64_t>(done), restart};
}

}  // namespace

void ClusterState::count(JobNumber j) {
  JobProgress& p = progress_[j];
  const Microseconds span = now_ - p.since;
  const Counted c = after(p, span);
  p.work_left = c.work_left;
  p.restart_left -= c.restart;
  p.used += static_cast<GpuMicroseconds>(span) * p.gpus;
  p.lost += static_cast<GpuMicroseconds>(c.restart) * p.gpus;
  p.since = now_;
}

std::int64_t ClusterState::work_left(JobNumber j) const {
  const JobProgress& p = progress_[j];
  return p.phase == JobPhase::running ? after(p, now_ - p.since).work_left : p.work_left;
}

GpuMicroseconds ClusterState::attained(JobNumber j) const {
  const JobProgress& p = progress_[j];
  const Microseconds span = p.phase == JobPhase::running ? now_ - p.since : 0;
  return p.used + static_cast<GpuMicroseconds>(span) * p.gpus;
}

Microseconds ClusterState::end_of(JobNumber j) const {
  const JobProgress& p = progress_[j];
  return p.since + p.restart_left + (p.work_left + p.speed - 1) / p.speed;
}

Microseconds ClusterState::longest_hold(JobNumber j) const {
  const ClusterJob& job = jobs_[j];
  // One GPU cannot be scattered.
  const std::int64_t speed = job.gpus > 1 && rule_ == PlaceRule::packed ? costs_.scattered_speed : full_speed;
  return wait_of(j) + (progress_[j].work_left + speed - 1) / speed;
}

bool ClusterState::restarting(JobNumber j) const { return progress_[j].since + progress_[j].restart_left > now_; }

bool ClusterState::start(JobNumber j, const JobSpeed& on) {
  JobProgress& p = progress_[j];
  ORRERY_ASSERT(p.phase == JobPhase::waiting, j);
  p.places = pool_.take(on.gpus, rule_);
  if (p.places.empty()) return false;
  p.gpus = on.gpus;
  const bool scattered = p.places.size() > pool_.least_nodes(on.gpus);
  p.speed = scattered ? std::max<std::int64_t>(1, on.speed * costs_.scattered_speed / full_speed) : on.speed;
  // A stop in the middle of a restart makes the restart begin again.
  p.restart_left = wait_of(j);
  if (p.first_start < 0) p.first_start = now_;
  enter(j);
  return true;
}

bool ClusterState::start_apart(JobNumber j, const JobSpeed& on) {
  if (on.gpus <= pool_.most_free()) return start(j, on);  // one node
  std::vector<NodeShare> others;
  for (const JobNumber r : running_) {
    if (progress_[r].places.size() < 2) continue;
    for (const NodeShare& share : progress_[r].places) {
      const NodeShare left{share.node, pool_.free_on(share.node)};
      if (left.gpus > 0 && pool_.take(std::vector{left})) others.push_back(left);
    }
  }
  const bool started = start(j, on);
  pool_.give_back(others);
  return started;
}

void ClusterState::enter(JobNumber j) {
  JobProgress& p = progress_[j];
  p.phase = JobPhase::running;
  p.since = p.started = now_;
  p.work_at_start = p.work_left;
  running_at_[j] = static_cast<std::uint32_t>(running_.size());
  running_.push_back(j);
  changes_.push_back(j);
  record(Event::start, j);
}

void ClusterState::leave(JobNumber j, Event event) {
  JobProgress& p = progress_[j];
  ORRERY_ASSERT(p.phase == JobPhase::running, j);
  count(j);
  pool_.give_back(p.places);
  if (stretches_ != nullptr && now_ > p.started) stretches_->push_back({j, p.started, now_, p.places});
  p.places.clear();
  p.gpus = 0;
  running_at_[running_.back()] = running_at_[j];
  running_[running_at_[j]] = running_.back();
  running_.pop_back();
  changes_.push_back(j);
  record(event, j);
}

void ClusterState::stop(JobNumber j) {
  leave(j, Event::stop);
  progress_[j].phase = JobPhase::waiting;
  ++progress_[j].stops;
}

bool ClusterState::take_back_stop(JobNumber j, std::vector<NodeShare> places) {
  JobProgress& p = progress_[j];
  ORRERY_ASSERT(p.phase == JobPhase::waiting && p.stops > 0 && p.since == now_, j);
  if (!pool_.take(places)) return false;
  // Its speed and what is left of a restart are those of its stop.
  --p.stops;
  for (const NodeShare& share : places) p.gpus += share.gpus;
  p.places = std::move(places);
  // It was not saved: what a failure would undo begins where its stretch began.
  const std::int64_t begun = p.work_at_start;
  enter(j);
  p.work_at_start = begun;
  return true;
}

std::vector<JobNumber> ClusterState::fail_node(std::uint32_t node) {
  std::vector<JobNumber> out;
  for (const JobNumber j : running_) {
    const std::vector<NodeShare>& places = progress_[j].places;
    if (std::any_of(places.begin(), places.end(), [node](const NodeShare& s) { return s.node == node; }))
      out.push_back(j);
  }
  std::sort(out.begin(), out.end());
  for (const JobNumber j : out) {
    JobProgress& p = progress_[j];
    const std::uint32_t gpus = p.gpus;
    leave(j, Event::fail);
    const std::int64_t done = p.work_at_start - p.work_left;
    const Microseconds worked = done / p.speed, kept = worked / costs_.save_interval * costs_.save_interval;
    p.work_left += done - kept * p.speed;
    p.undone += GpuMicroseconds{worked - kept} * gpus;
    p.phase = JobPhase::waiting;
    ++p.failures;
  }
  down_nodes_.push_back({node, pool_.free_on(node)});
  ORRERY_ASSERT(pool_.take({down_nodes_.back()}), node);
  down_ += down_nodes_.back().gpus;
  record(Event::node_down, node);
  return out;
}

void ClusterState::repair_node(std::uint32_t node) {
  const auto at =
      std::find_if(down_nodes_.begin(), down_nodes_.end(), [node](const NodeShare& s) { return s.node == node; });
  ORRERY_ASSERT(at != down_nodes_.end(), node);
  pool_.give_back({*at});
  down_ -= at->gpus;
  down_nodes_.erase(at);
  record(Event::node_up, node);
}

void ClusterState::submit(JobNumber j) {
  progress_[j].phase = JobPhase::waiting;
  progress_[j].crowd = -crowd_time_;
  ++crowd_;
  record(Event::submit, j);
}

void ClusterState::finish(JobNumber j) {
  leave(j, Event::end);
  progress_[j].phase = JobPhase::ended;
  progress_[j].end = now_;
  progress_[j].crowd += crowd_time_;
  --crowd_;
}

std::vector<JobNumber> ClusterState::take_changes() {
  std::vector<JobNumber> out;
  out.swap(changes_);
  return out;
}

}  // namespace orrery
