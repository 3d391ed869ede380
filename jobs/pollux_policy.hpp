#pragma once

#include <cstdint>
#include <vector>

#include "jobs/cluster_job.hpp"

namespace orrery {

/// What a job on some number of GPUs costs Pollux, in millionths.
///
///     cost = round(10^6 / (f s / s_fair + 10^-3))
///
///     f       restart factor, as Sia's, where the number is not the one that a running job has; else 1
///     s       speed there; 0 without GPUs
///     s_fair  speed on an equal share of the cluster's GPUs
///
/// The sum of it over jobs is least where the power mean of their speedups with exponent -1, which Pollux maximises, is
/// greatest. Source: Qiao et al., "Pollux", OSDI 2021, section 4.2, as in siasosp23/artifacts aaf7a0d,
/// sia-simulator/pollux_unaware_fix.py.
[[nodiscard]] std::int64_t pollux_cost(double speed_over_fair, double factor);

/// The speed on a number of GPUs, straight between those that a job has; below the first in proportion, above the last
/// its own. Requires at least one, ascending.
[[nodiscard]] double speed_between(const std::vector<JobSpeed>&, double gpus);

}  // namespace orrery
