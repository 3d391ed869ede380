#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "core/spec/reliability_spec.hpp"

namespace orrery {

/// Why wall time is no productive time.
enum class LostTime : std::uint8_t {
  save,          ///< steps wait for a save
  lost_work,     ///< steps since the last save that counts, done again
  detection,     ///< a failure is not known yet
  queue,         ///< nodes are missing
  restart,       ///< processes, communicators, warm-up
  load,          ///< of the checkpoint
  planned_stop,  ///< with its save, restart and load
  slow,          ///< slow nodes, or fewer replicas
};
inline constexpr std::size_t lost_time_count = 8;
[[nodiscard]] std::string_view name_of(LostTime);

/// Where the wall time of a run went. The parts sum to the wall time.
struct RunLedger {
  Seconds productive;
  std::array<Seconds, lost_time_count> lost;
  [[nodiscard]] Seconds& operator[](LostTime why) { return lost[static_cast<std::size_t>(why)]; }
  [[nodiscard]] Seconds operator[](LostTime why) const { return lost[static_cast<std::size_t>(why)]; }
  [[nodiscard]] Seconds wall() const;
  friend bool operator==(const RunLedger&, const RunLedger&) = default;
};

/// What strikes a job of so many nodes, and what it takes to go on.
struct RunHazards {
  double nodes = 1.0;
  double node_failures = 0.0;   ///< in a second, all nodes together
  double group_failures = 0.0;  ///< groups, all together
  double job_failures = 0.0;
  double planned_stops = 0.0;
  double group_nodes = 1.0;  ///< nodes that a group event takes, mean over events
  double shape = 1.0;        ///< Weibull, of the time between failures
  Seconds detect, queue, restart, load, planned_stop;
  double needs_storage = 1.0;           ///< share of failures after which copies in memory are gone
  std::optional<Seconds> repair;        ///< unset: nothing is known of repairs
  std::optional<std::uint64_t> spares;  ///< unset: there is always one
  double slow_starts = 0.0;             ///< in a second, all nodes together
  double slow_factor = 1.0;
  Seconds slow_until_found;

  [[nodiscard]] double failures() const { return node_failures + group_failures + job_failures; }
  /// Mean time between failures; unset where nothing fails.
  [[nodiscard]] std::optional<Seconds> mean() const;
  /// What passes from a failure until work goes on, in this order.
  [[nodiscard]] std::array<std::pair<LostTime, Seconds>, 4> phases() const {
    return {{{LostTime::detection, detect},
             {LostTime::queue, queue},
             {LostTime::restart, restart},
             {LostTime::load, load}}};
  }
  /// From a failure until work goes on, undisturbed.
  [[nodiscard]] Seconds recovery() const { return detect + queue + restart + load; }
};

/// What a reliability file says of a job on `nodes` nodes of `gpus_per_node`, without the load of its checkpoint.
/// Nodes with fewer GPUs than those that the rates are of fail in proportion to their GPUs. `unknown` gets the keys
/// without which the forecast is open. No node, group or job failures at all: nothing fails, and nothing is unknown.
[[nodiscard]] RunHazards hazards_of(const ReliabilitySpec&, std::uint64_t nodes, std::uint32_t gpus_per_node,
                                    std::vector<std::string>& unknown);

}  // namespace orrery
