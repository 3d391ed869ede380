#pragma once

#include <optional>

#include "core/base/units.hpp"
#include "forecast/run_hazards.hpp"

namespace orrery {

/// How often a run saves, and what a save costs.
struct SavePlan {
  Seconds interval;         ///< work between saves
  Seconds blocking;         ///< for which a save stops the steps
  Seconds until_it_counts;  ///< from then until the save is whole: 0 unless it is written beside the steps
  /// One save in so many goes to storage and stops the steps for storage_blocking. The others stay in the memory of
  /// other nodes, and a share needs_storage of the failures destroys them.
  std::uint64_t storage_every = 1;
  Seconds storage_blocking;  ///< of a save to storage, where storage_every > 1
};

/// Wall time, in the mean, of `work` seconds of healthy steps, by cause.
///
///     wall = work (1 / e + saves and restarts around planned stops)
///     lost work         M (e^(T / M) - 1) e^(w / M) - T      of an interval, T = tau + C
///     phase from a to b (e^(-a / M) - e^(-b / M)) / s        of M, for each failure outside of restarts
///     planned stops     C + P + restart + load               each
///     slow nodes        s (f - 1) / (f - s (f - 1))      of the steps' time; s = 1 - e^(-r t): one or more is slow
///
/// Source: Daly 2006 and saved_efficiency; phases are the parts of a restart that pass before the next failure.
/// Requires one level of saves and exponential failures: two levels, bursts, missing spares and fewer replicas need
/// events (forecast/run_events.hpp). Empty where the run never ends: a share of less than 1e-9 of its time is work.
[[nodiscard]] std::optional<RunLedger> expected_run(Seconds work, const SavePlan&, const RunHazards&);

/// Productive time over wall time.
[[nodiscard]] double effective_share(const RunLedger&);

}  // namespace orrery
