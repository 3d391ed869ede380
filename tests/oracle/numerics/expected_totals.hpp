#pragma once

#include <cstdint>

#include "core/program/program.hpp"

namespace orrery::test {

/// What a Program says that a rank holds and sends, counted op by op over the
/// expanded list: the plainest reading, apart from core/program/totals.
struct ExpectedTotals {
  std::uint64_t peak_bytes = 0;       ///< largest live bytes over setup and one step
  std::uint64_t host_peak_bytes = 0;  ///< the same of the host tier
  std::uint64_t disk_peak_bytes = 0;  ///< and of the disk tier
  std::uint64_t sent_bytes = 0;       ///< of one step: ring algorithms and exchanges
};
[[nodiscard]] ExpectedTotals expected_totals(const Program&, Rank);

}  // namespace orrery::test
