#pragma once

#include <cstdint>

#include "core/base/units.hpp"

namespace orrery {

// How often to save. Failures are exponential with mean `mean` and may strike at any time, also during a save or a
// restart. `save` is the time for which a save stops the steps.

/// First-order interval of work between saves.
///
///     tau = sqrt(2 C M)          C  save          M  mean time between failures
///
/// Source: Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974.
[[nodiscard]] Seconds young_interval(Seconds save, Seconds mean);

/// Higher-order interval.
///
///     tau = sqrt(2 C M) (1 + sqrt(x) / 3 + x / 9) - C      x = C / (2 M), for C < 2 M; else M
///
/// Source: Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006.
[[nodiscard]] Seconds daly_interval(Seconds save, Seconds mean);

/// The interval that wastes least, exactly. The time of a restart drops out.
///
///     (1 - tau / M) e^((tau + C) / M) = 1,  that is  tau = M (1 + W0(-e^(-1 - C / M)))
///
/// Source: derived from the efficiency of saved_efficiency: its derivative by tau is 0. W0 is the principal branch of
/// Lambert's function; the equation is solved by Newton's method in tau / M, which loses no digits where C is small.
[[nodiscard]] Seconds best_interval(Seconds save, Seconds mean);

/// The share of wall time that is work which stays, of a run without end.
///
///     e = tau e^(-w / M) / (M / s (e^((tau + C) / M) - 1))      s = e^(-R / M) where every restart takes R
///
///     w  from the end of a save until it counts (asynchronous saves)      s  chance that a restart is not interrupted
///
/// Source: Daly 2006 for w = 0. With w, save k of an undisturbed stretch counts if that lasts k (tau + C) + w: the
/// chances sum to e^(-w / M) / (e^((tau + C) / M) - 1) saves for each failure. Derived; tested against events.
/// Leaves out: saves that fail, bursts of failures.
[[nodiscard]] double saved_efficiency(Seconds interval, Seconds save, Seconds until_it_counts, Seconds mean,
                                      double undisturbed_restart);

/// The whole number of steps between saves that is better of the two around best_interval; at least 1.
[[nodiscard]] std::uint64_t best_steps(Seconds step, Seconds save, Seconds mean);

/// Two kinds of saves: often to the memory of other nodes, seldom to storage. A share q of failures needs storage.
struct TwoLevelIntervals {
  Seconds memory, storage;
  double waste = 0.0;  ///< share of time, to first order
};
/// Young's interval for each kind by itself.
///
///     tau1 = sqrt(2 C1 M / (1 - q))      tau2 = sqrt(2 C2 M / q)
///     waste = C1 / tau1 + tau1 (1 - q) / (2 M) + C2 / tau2 + tau2 q / (2 M)
///
/// Source: Young 1974 for each level; that levels do not disturb each other is an approximation. Requires 0 < q < 1.
[[nodiscard]] TwoLevelIntervals two_level_intervals(Seconds memory_save, Seconds storage_save, Seconds mean,
                                                    double needs_storage);

}  // namespace orrery
