#pragma once

#include <cstdint>

#include "jobs/job_policy.hpp"

namespace orrery {

/// What a number of GPUs is worth to our policy `marginal`, in 10^-9 per second: the rate at which the job comes to its
/// end, the time of a change counted in.
///
///     worth = round(10^9 / max(c + w / s, 1 s))       0 without GPUs
///
///     c  time of the restart, where the job must stop for it; what is left of one that runs
///     w  work left, in seconds at full speed    s  speed there, 1 at full speed
///
/// The sum over jobs is greatest where one GPU more brings no end nearer, in proportion to the time left, than the GPU
/// is worth where it is: short jobs first, as in SRPT, and no more GPUs for a job than it uses well. Source: our own.
/// For jobs that run on one GPU it is the shortest remaining time first, which is optimal there (Schrage, "A proof of
/// the optimality of the shortest remaining processing time discipline", Operations Research 16, 1968). Leaves out:
/// jobs that will come.
[[nodiscard]] std::int64_t marginal_worth(double change_s, double work_left_s, double speed);

/// A job's finish_time_fairness(), if it takes `left_s` from now on and as many jobs want GPUs as now.
[[nodiscard]] double expected_fairness(const ClusterState&, JobNumber, double left_s);

}  // namespace orrery
