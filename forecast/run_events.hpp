#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "forecast/run_hazards.hpp"
#include "forecast/run_time.hpp"

namespace orrery {

/// What happened in a run, for its history and its picture.
enum class WholeRunEventKind : std::uint8_t {
  node_failure,
  group_failure,
  job_failure,
  planned_stop,
  slow_start,
  slow_found,
  resumed,   ///< steps go on
  repaired,  ///< a node may be used again
  finished,
};
[[nodiscard]] std::string_view name_of(WholeRunEventKind);

struct WholeRunEvent {
  Seconds at;    ///< wall time
  Seconds kept;  ///< work that stays
  WholeRunEventKind kind{};
};

/// What a job does when a node is missing and no spare is left.
struct FewerReplicas {
  /// slowdown[k]: time of a healthy step of the same batch with k replicas missing, over that of all; [0] is 1. A job
  /// with one entry waits for a repair.
  std::vector<double> slowdown{1.0};
  double nodes_per_replica = 1.0;  ///< that a missing node takes with it
};

struct SimulatedRun {
  RunLedger ledger;
  std::uint64_t failures = 0;
  std::uint64_t most_replicas_missing = 0;
  std::uint64_t history = 0;  ///< hash of all events: kind, time and kept work in whole nanoseconds
  std::uint64_t events = 0;   ///< of every kind
  bool finished = false;      ///< false: given up after `most_events`
};

/// Plays one run: failures of nodes, groups and the job, planned stops, slow nodes, repairs, spares, fewer replicas.
///
/// Events are failure to failure: saves in between are counted, not played, so a run costs as much as it has failures.
/// Two runs with the same seed and number are equal, bit by bit; different numbers give independent runs. A failure
/// between two saves costs the steps since the last save that counts; a save counts `until_it_counts` after it, a copy
/// in memory at once. Failures strike during restarts and waits, too. Planned stops wait for the end of a restart.
///
/// Leaves out: failed saves, and the time in which fewer replicas change back, beyond a restart.
[[nodiscard]] SimulatedRun simulate_run(Seconds work, const SavePlan&, const RunHazards&, const FewerReplicas&,
                                        std::uint64_t seed, std::uint64_t number,
                                        std::vector<WholeRunEvent>* history = nullptr,
                                        std::uint64_t most_events = 1'000'000'000);

}  // namespace orrery
