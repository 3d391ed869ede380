#pragma once

#include <cstdint>

#include "jobs/cluster_job.hpp"

namespace orrery {

/// Jobs that look like those of Microsoft's Philly cluster in 2017: as many want 1, 2, 4 ... 128 GPUs, and their runs
/// have the same quantiles, apart for one GPU and for more, and come at the same mean rate. Submissions are
/// independent, as they are not on a real cluster, and the run does not depend on the number of GPUs beyond one.
///
/// The figures are counted in siasosp23/artifacts aaf7a0d, sia-simulator/traces/philly.csv (82,247 jobs), which is made
/// from Jeon et al., "Analysis of large-scale multi-tenant GPU clusters for DNN training workloads", ATC 2019.
/// The same count and seed give the same jobs. Submissions and runs are whole seconds.
[[nodiscard]] JobWorkload philly_like(std::uint32_t count, std::uint64_t seed);

}  // namespace orrery
