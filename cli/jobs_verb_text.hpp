#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/planned_jobs.hpp"
#include "jobs/job_figures.hpp"

namespace orrery {

/// A workload under a policy, for answers.
struct PlayedPolicy {
  const JobPolicyRow* policy = nullptr;
  JobHistory history;
  JobFigures figures;
  std::optional<JobHistory> executed;  ///< on this machine, of the same workload
};

/// What `orrery jobs` answers.
struct JobsAnswer {
  std::string workload_name, cluster_name;
  JobWorkload workload;
  JobSimulation options;
  std::vector<JobNumber> too_large;  ///< left out; numbers of the file's jobs
  std::vector<PlannedCurve> curves;
  JobPlans plans = JobPlans::change;
  std::vector<PlayedPolicy> played;
};

[[nodiscard]] std::string jobs_text(const JobsAnswer&);
/// With `each`, the times of every job too.
[[nodiscard]] nlohmann::ordered_json jobs_json(const JobsAnswer&, bool each);

}  // namespace orrery
