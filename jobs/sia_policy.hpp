#pragma once

#include <cstdint>

namespace orrery {

/// What Sia's integer program pays for a job on some number of GPUs, in hundredths.
///
///     cost = round(100 min((f s / s_min)^p, 3000))        p = -0.5
///     f    = max(age - n S, 0) / (age + S)                of a number of GPUs that is not the job's own now
///
///     s, s_min  speed there, and the least of the job's     S  time of a restart
///     age       since its submission                        n  restarts so far
///
/// f is 1 for a job that holds the GPUs or none, and while age < S. A job without GPUs costs 110 (lambda_n = 1.1).
///
/// Source: Jayaram Subramanya et al., "Sia", SOSP 2023, section 3.4, with the constants and the rounding of
/// siasosp23/artifacts aaf7a0d, sia-simulator/sia.py and simulator_config.py.
/// Leaves out: types of GPUs, weights of jobs.
[[nodiscard]] std::int64_t sia_cost(double speed_over_least, double factor);
[[nodiscard]] double sia_restart_factor(double age_s, double restarts, double restart_s);
inline constexpr std::int64_t sia_cost_without_gpus = 110;

}  // namespace orrery
