#include <algorithm>
#include <array>
#include <map>

#include "jobs/priority_policy.hpp"

namespace orrery {
namespace {

/// Discretised least attained service. A job begins in the first queue and goes down when what it has had reaches the
/// queue's threshold. Inside a queue jobs that run stay before those that wait, and go by their entry.
class LeastAttained final : public PriorityPolicy {
 public:
  explicit LeastAttained(bool of_gpus) : of_gpus_(of_gpus) {}

  void submitted(const ClusterState& state, JobNumber j) override {
    levels_[j] = {0, entries_++};
    PriorityPolicy::submitted(state, j);
  }
  void failed(const ClusterState& state, JobNumber j) override { PriorityPolicy::submitted(state, j); }
  void ended(const ClusterState&, JobNumber j) override { levels_.erase(j); }
  Microseconds next_look(const ClusterState& state) const override {
    Microseconds next = never;
    for (const JobNumber j : state.running()) {
      const std::uint32_t level = levels_.at(j).queue;
      if (level == thresholds.size()) continue;
      const GpuMicroseconds weight = of_gpus_ ? state.job(j).gpus : 1;
      const GpuMicroseconds left = thresholds[level] - had(state, j);
      next = std::min(next, state.now() + static_cast<Microseconds>((left + weight - 1) / weight));
    }
    return next;
  }

 protected:
  JobRank rank(const ClusterState& state, JobNumber j) const override {
    const Level& level = levels_.at(j);
    const bool waits = state.progress(j).phase != JobPhase::running;
    return {2 * GpuMicroseconds{level.queue} + (waits ? 1 : 0), level.entry, j};
  }
  void look(const ClusterState& state) override {
    for (const JobNumber j : state.running()) {
      Level& level = levels_.at(j);
      bool down = false;
      while (level.queue < thresholds.size() && had(state, j) >= thresholds[level.queue]) {
        ++level.queue;
        down = true;
      }
      if (down) level.entry = entries_++;
    }
  }

 private:
  /// Seconds, or GPU-seconds, at which a job leaves the first and the second of the three queues: those of Tiresias's
  /// simulator (SymbioticLab/Tiresias 959f9b0, simulator/jobs.py).
  static constexpr std::array<GpuMicroseconds, 2> thresholds = {3250 * GpuMicroseconds{microseconds_per_second},
                                                                7200 * GpuMicroseconds{microseconds_per_second}};
  struct Level {
    std::uint32_t queue = 0;
    std::uint64_t entry = 0;
  };

  [[nodiscard]] GpuMicroseconds had(const ClusterState& state, JobNumber j) const {
    const GpuMicroseconds service = state.attained(j);
    return of_gpus_ ? service : service / state.job(j).gpus;
  }

  bool of_gpus_;
  std::uint64_t entries_ = 0;
  std::map<JobNumber, Level> levels_;
};

}  // namespace

std::unique_ptr<JobPolicy> least_time_policy() { return std::make_unique<LeastAttained>(false); }
std::unique_ptr<JobPolicy> least_service_policy() { return std::make_unique<LeastAttained>(true); }

}  // namespace orrery
