#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.hpp"

namespace orrery {

/// Start and end of one op, in picoseconds from the start of the step.
///
/// A Collective or Exchange starts when its last partner is ready (an Exchange of several messages when the first of
/// them can move). The waiting before that belongs to no span.
struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

/// What one rank did: spans[i] is the op with OpId i.  Ops without time (Alloc,
/// Free) have the instant at which the compute lane passed them: the end of the
/// last op before them on that lane.
struct RankTrace {
  Rank rank{};
  std::vector<Span> spans;
  std::uint64_t peak_bytes = 0;  ///< live buffer bytes, setup included
  std::uint64_t sent_bytes = 0;  ///< by collectives and exchanges
  friend bool operator==(const RankTrace&, const RankTrace&) = default;
};

/// A simulated or executed step.  Both kinds name the same ops.
struct Trace {
  std::string origin;            ///< "simulate", "run threads", "run processes" or "run mpi": who wrote it
  bool concurrent_lanes = true;  ///< whether lanes ran side by side; false: a rank did one op at a time
  std::vector<RankTrace> ranks;
  friend bool operator==(const Trace&, const Trace&) = default;
};

}  // namespace orrery
