#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/operation.hpp"
#include "core/record/trace.hpp"
#include "sim/cost/prices.hpp"
#include "sim/des/rank_classes.hpp"
#include "sim/net/link.hpp"

namespace orrery {

/// One op on the path that decides how long a step takes.
struct CriticalStep {
  Rank rank{};
  OpId op{};
  Operation operation{};
  std::int64_t start = 0, end = 0;  ///< picoseconds; a message begins when both its ends are ready
  friend bool operator==(const CriticalStep&, const CriticalStep&) = default;
};

/// Why a step takes as long as it does: a chain of ops from the step's start to its end, each of which began when the
/// one before it ended. The chain goes from one rank to another where a collective or a message waited for that rank.
///
/// Kelley and Walker, "Critical-path planning and scheduling", 1959.
struct CriticalPath {
  std::vector<CriticalStep> steps;  ///< in order of time
  std::int64_t waiting = 0;         ///< picoseconds between them: ranks that waited for a core

  /// Picoseconds of all ops of a kind on the path. If these ops took no time at all, the step would be shorter by at
  /// most that.
  [[nodiscard]] std::vector<std::int64_t> by_operation() const;  ///< [operation]
};

/// Path of a simulated step, whose trace has one rank for each of the classes, in their order.
[[nodiscard]] CriticalPath critical_path(const Program&, const Prices&, const RankClasses&, const Trace&);

/// The gain from faster ops of one kind, or from faster links of one kind.
struct Gain {
  Operation operation{};
  bool all_compute = false;       ///< of all kernels together, as a faster device would
  std::optional<LinkKind> links;  ///< kind of links of a fabric, in place of ops; how long the path waits for them is
                                  ///< not known
  std::int64_t on_path = 0;       ///< picoseconds
  std::int64_t saved = 0;         ///< picoseconds that the step is shorter when all of these, on every rank, take a
                                  ///< tenth less
};
/// Picoseconds of the step at other prices, and with links of one kind a tenth faster.
using Replay = std::function<std::int64_t(const Prices&, std::optional<LinkKind>)>;
/// For each kind of operation on the path, the longest first, and for each of `links`: the step again with those a
/// tenth shorter. For an operation the gain is at most a tenth of its time on the path, as long as ranks share neither
/// cores nor links. Where they share some, ops off the path hold others up, and time saved on one link may crowd
/// another. Ends where a replay is cancelled, with the gains known by then.
[[nodiscard]] std::vector<Gain> gains(const Program&, const Prices&, const CriticalPath&, std::int64_t step,
                                      std::span<const LinkKind> links, const Replay&);

}  // namespace orrery
