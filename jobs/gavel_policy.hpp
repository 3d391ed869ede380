#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

/// Gavel's max-min fairness for GPUs of one type: the share of its time for which each job runs.
///
///     maximise  min over jobs of g X    so that  0 <= X <= 1,  sum of g X <= G
///
///     g  GPUs of a job    X  share of the time that it runs    G  GPUs of the cluster
///
/// Gavel divides a job's throughput by that on an equal share of each type and multiplies it by its GPUs; with one type
/// g X is left. The solution that is also best for all but the worst jobs is closed: g X = min(g, level), with the
/// level at which all GPUs are used, or X = 1 where they suffice for all.
///
/// Source: Narayanan et al., "Gavel", OSDI 2020, sections 4.1 and 4.3 (water filling).
/// Leaves out: types of GPUs, weights of jobs, two jobs on one GPU. Requires GPUs of at least 1 each.
[[nodiscard]] std::vector<double> gavel_shares(const std::vector<std::uint32_t>& gpus_of_jobs, std::uint64_t gpus);

}  // namespace orrery
