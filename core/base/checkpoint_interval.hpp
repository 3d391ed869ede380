#pragma once

#include <cstdint>

#include "core/base/units.hpp"

namespace orrery {

/// The principal branch of Lambert's W: the w >= -1 with w e^w = z.
///
/// Requires z >= -1/e. By Halley's iteration; relative errors are below 1e-14 away from the branch point -1/e, where
/// w + 1 loses half of the digits of z.
///
/// Source: Corless, Gonnet, Hare, Jeffrey and Knuth, "On the Lambert W function", Advances in Computational Mathematics
/// 5, 1996: equations 4.22 (series at the branch point) and 5.9 (iteration).
[[nodiscard]] double lambert_w0(double z);

/// Work between two checkpoints that loses least time: the exact optimum.
///
///     tau* = M (1 + W0(-e^(-1 - C/M)))
///
///     M  mean time between failures     C  time of a save, during which nothing is trained
///     e(tau) = tau / (M e^(R/M) (e^((tau + C)/M) - 1)),  the share of time that is kept work;  e'(tau*) = 0
///     R  time from a failure until work goes on; it drops out
///
/// Source: Daly, "A higher order estimate of the optimum checkpoint interval", Future Generation Computer Systems
/// 22(3), 2006, for the expected time; the root in closed form is derived in docs/formulas/failures.md.
/// Leaves out: failures that come in bursts, saves beside training, and several levels of storage.
///
/// Requires M > 0 and C >= 0. It is 0 for C = 0, and tends to M where saves take much longer than M.
[[nodiscard]] Seconds optimal_interval(Seconds mean_time_between_failures, Seconds save);

/// optimal_interval in whole steps, at least 1: of the two numbers around it the one with the larger e.
[[nodiscard]] std::uint64_t steps_between_saves(Seconds mean_time_between_failures, Seconds save, Seconds step);

}  // namespace orrery
