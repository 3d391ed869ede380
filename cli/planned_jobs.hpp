#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "jobs/job_curve.hpp"

namespace orrery {

/// Which plans a job may have on other numbers of GPUs.
enum class JobPlans : std::uint8_t {
  change,  ///< the best that the planner finds there
  keep     ///< that of the job's own GPUs, with more or fewer replicas
};

/// How a training's step falls with its GPUs.
struct PlannedCurve {
  JobTraining training;   ///< with steps of its first job
  std::uint32_t own = 1;  ///< GPUs that its jobs name
  std::vector<StepPoint> points;
};

/// Gives the jobs that name a model their runs and speeds on a cluster of so many GPUs, from the fastest of the
/// plainest plans on each number of GPUs. Trainings that differ in nothing but their steps are planned once. A training
/// for which no plan fits on its GPUs is a mistake (jobs.plan). Returns the curves, in the order of their first jobs.
[[nodiscard]] std::vector<PlannedCurve> add_planned_speeds(JobWorkload&, const std::string& cluster, const CommonFlags&,
                                                           std::uint32_t node_gpus, std::uint32_t gpus, JobPlans);

}  // namespace orrery
