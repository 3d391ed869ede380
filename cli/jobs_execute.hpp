#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "jobs/job_simulation.hpp"

namespace orrery {

/// Jobs as processes of this machine: `orrery run` with a process for each rank, under the plan for the number of GPUs
/// that the policy gives. What a job cannot keep in memory it keeps in a checkpoint: to grow, shrink, move or wait it
/// is asked to end (SIGTERM), saves after the step that it is in, and later goes on from there under another plan.
class ExecutedJobs {
 public:
  /// Files go into `folder`, which is made. Reads the plans; a plan that is for no number of GPUs of its own, or one
  /// that is missing for the GPUs that its job names, is a mistake (jobs.plan).
  ExecutedJobs(JobWorkload&, const std::filesystem::path& workload_file, std::filesystem::path folder,
               const CommonFlags&);

  /// Runs every plan alone for some steps, twice, and gives the jobs their runs, speeds, and times of starts from the
  /// difference.
  void measure();

  /// Plays the workload in this machine's time under a policy. What comes of it is a history as the simulation's.
  [[nodiscard]] JobHistory play(const JobPolicyRow&, const JobSimulation&);

 private:
  struct Processes;
  [[nodiscard]] std::vector<std::string> command(const std::string& plan, std::uint32_t ranks, std::uint64_t steps,
                                                 const std::filesystem::path& saved) const;
  [[nodiscard]] double timed(const std::string& plan, std::uint32_t ranks, std::uint64_t steps, std::uint32_t number);

  JobWorkload& workload_;
  std::filesystem::path folder_;
  CommonFlags flags_;
  std::vector<std::map<std::uint32_t, std::string>> plans_;  ///< of each job, by ranks
};

}  // namespace orrery
