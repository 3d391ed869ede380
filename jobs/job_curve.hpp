#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jobs/cluster_job.hpp"

namespace orrery {

/// The step of a training on some number of GPUs under the plan that is used there.
struct StepPoint {
  std::uint32_t gpus = 1;
  double step_s = 0.0;
  std::string plan;  ///< in one line
};

/// The numbers of GPUs on which a job is tried: powers of two within a node, 1, 2, 3, 4, 6, 8, 12 ... whole nodes, and
/// the job's own, ascending, up to `most`.
[[nodiscard]] std::vector<std::uint32_t> tried_counts(std::uint32_t own, std::uint32_t node_gpus, std::uint32_t most);

/// Gives a job with `training` its run and speeds. Points are in ascending order of GPUs. A number of GPUs on which the
/// step is no shorter than on fewer is left out, since nothing is gained there; but the job's own number stays, at the
/// shortest step up to it, since a job need not use all that it holds. False where no point is at or below the job's
/// own number; the job is then unchanged.
[[nodiscard]] bool set_curve(ClusterJob&, const std::vector<StepPoint>&);

}  // namespace orrery
