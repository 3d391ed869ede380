#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "jobs/job_simulation.hpp"

namespace orrery {

/// Thrown where a person breaks the jobs off.
struct JobsBrokenOff {
  std::string kept = {};  ///< what is left of them, for a person; may be empty
};

/// Jobs as processes of this machine: `orrery run` with a process for each rank, under the plan for the number of GPUs
/// that the policy gives. What a job cannot keep in memory it keeps in a checkpoint: to grow, shrink, move or wait it
/// is asked to end (SIGTERM), saves after the step that it is in, and later goes on from there under another plan.
class ExecutedJobs {
 public:
  /// Files go into `folder`, which is made. Reads the plans; a plan that is for no number of GPUs of its own, or one
  /// that is missing for the GPUs that its job names, is a mistake (jobs.plan).
  ExecutedJobs(JobWorkload&, const std::filesystem::path& workload_file, std::filesystem::path folder,
               const CommonFlags&);

  /// Refuses (jobs.execute) policies of which the folder has a run already.
  void require_new(const std::vector<const JobPolicyRow*>&) const;

  /// Runs every plan alone for a quarter of the steps of the first job that names it. The median step gives the jobs
  /// their runs and speeds, the rest of the time that of a start.
  void measure();

  /// Plays the workload in this machine's time under a policy, of which nothing is kept yet. What comes of it is a
  /// history as the simulation's. A signal throws JobsBrokenOff, here as in measure(), once all processes have ended.
  [[nodiscard]] JobHistory play(const JobPolicyRow&, const JobSimulation&);

 private:
  class Play;
  [[nodiscard]] std::filesystem::path folder_of(const JobPolicyRow&) const;
  [[nodiscard]] std::vector<std::string> command(const std::string& plan, std::uint32_t ranks, std::uint64_t steps,
                                                 const std::filesystem::path& saved) const;
  /// Seconds of a step, and of a start with the save at the end.
  struct Pace {
    double step_s = 0.0, start_s = 0.0;
  };
  [[nodiscard]] Pace pace_of(const std::string& plan, std::uint32_t ranks, std::uint64_t steps);

  JobWorkload& workload_;
  std::filesystem::path folder_;
  CommonFlags flags_;
  std::vector<std::map<std::uint32_t, std::string>> plans_;  ///< of each job, by ranks
  std::map<std::string, Pace> paces_;                        ///< by plan
};

}  // namespace orrery
