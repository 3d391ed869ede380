#pragma once

#include <cstdint>
#include <vector>

#include "core/base/work_progress.hpp"
#include "forecast/run_events.hpp"

namespace orrery {

/// Many simulated runs.
struct RunSample {
  std::vector<Seconds> walls;    ///< ascending, of runs that finished
  RunLedger mean;                ///< of all of them
  double failures = 0.0;         ///< mean
  double wall_error = 0.0;       ///< standard error of the mean wall time, seconds
  std::uint64_t unfinished = 0;  ///< given up; no part of `walls` and `mean`
  std::uint64_t most_replicas_missing = 0;
  std::uint64_t history = 0;  ///< hash of all histories, in the order of the runs

  /// The wall time that a share of the runs does not exceed; linear between neighbours. Requires a finished run.
  [[nodiscard]] Seconds quantile(double share) const;
};

/// Runs 0 to `runs` - 1 of a seed. A run is given up after `most_events`; after `most_in_all` events of all runs no
/// other one begins. Progress counts runs.
[[nodiscard]] RunSample sample_runs(Seconds work, const SavePlan&, const RunHazards&, const FewerReplicas&,
                                    std::uint64_t runs, std::uint64_t seed, const WorkProgress& = {},
                                    std::uint64_t most_events = 1'000'000,
                                    std::uint64_t most_in_all = 1'000'000'000'000);

}  // namespace orrery
