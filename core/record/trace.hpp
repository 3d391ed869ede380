#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.hpp"

namespace orrery {

/// Start and end of one op, in picoseconds from the start of the step.
struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

/// What one rank did: spans[i] is the op with OpId i.  Ops without time (Alloc,
/// Free) have the instant at which they were issued.
struct RankTrace {
  Rank rank{};
  std::vector<Span> spans;
  std::uint64_t peak_bytes = 0;  ///< live buffer bytes, setup included
  std::uint64_t sent_bytes = 0;  ///< by collectives and exchanges
  friend bool operator==(const RankTrace&, const RankTrace&) = default;
};

/// A simulated or executed step.  Both kinds name the same ops.
struct Trace {
  std::string origin;  ///< "simulate" or "run threads": who wrote it
  std::vector<RankTrace> ranks;
  friend bool operator==(const Trace&, const Trace&) = default;
};

}  // namespace orrery
