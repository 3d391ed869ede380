#pragma once

#include <filesystem>
#include <string>

#include "core/plan/plan.hpp"
#include "framework/framework.hpp"

namespace orrery {

/// A batch file for Slurm that runs a plan file, which `plan` is, to its last step: it takes up the newest checkpoint,
/// and is queued again where a node fails, the time is up, or it is preempted.
[[nodiscard]] std::string sbatch_text(const PlannedRun&, const std::filesystem::path& plan);

/// A batch file for Slurm in which every node starts another program's launch, whose file `launch` is.
[[nodiscard]] std::string slurm_job_text(const PlannedRun&, const LaunchWriting&, const std::filesystem::path& launch);

}  // namespace orrery
