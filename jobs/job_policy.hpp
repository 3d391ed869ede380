#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "jobs/cluster_state.hpp"

namespace orrery {

/// Decides which jobs have GPUs. It is told of every job that comes and ends, and asked once after all events of an
/// instant. A policy keeps its own order of the jobs that wait.
class JobPolicy {
 public:
  static constexpr Microseconds never = std::numeric_limits<Microseconds>::max();

  virtual ~JobPolicy() = default;
  virtual void submitted(const ClusterState&, JobNumber) = 0;
  virtual void ended(const ClusterState&, JobNumber) {}
  /// A node of a running job has failed, so that the job waits again.
  virtual void failed(const ClusterState& state, JobNumber j) { submitted(state, j); }
  virtual void decide(ClusterState&) = 0;
  /// When it wants to be asked again, if nothing happens before.
  [[nodiscard]] virtual Microseconds next_look(const ClusterState&) const { return never; }
};

/// A policy's row: its word for flags, what it does, and who made the rule.
struct JobPolicyRow {
  std::string_view name;
  std::string_view rule;
  bool preempts;
  bool elastic;  ///< gives jobs with speeds other numbers of GPUs than their rows name
  std::string_view source;
  std::unique_ptr<JobPolicy> (*make)();
};
[[nodiscard]] const std::vector<JobPolicyRow>& job_policies();
/// Null where there is none.
[[nodiscard]] const JobPolicyRow* find_job_policy(std::string_view name);

// Each in the file of its name.
[[nodiscard]] std::unique_ptr<JobPolicy> fifo_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> fit_first_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> longest_pending_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> backfill_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> gavel_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> marginal_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> pollux_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> sia_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> smallest_first_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> shortest_time_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> shortest_service_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> least_time_policy();
[[nodiscard]] std::unique_ptr<JobPolicy> least_service_policy();

}  // namespace orrery
