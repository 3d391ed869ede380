#pragma once

#include "core/base/units.hpp"

namespace orrery {

/// One direction of one link of a network level, per device.
struct LinkCost {
  Seconds latency;      ///< of one message
  Bandwidth bandwidth;  ///< one way
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// One message.
///
///     T = a + n / b
///
///     n  bytes     a  latency     b  bandwidth, one way
///
/// Source: Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994.
/// Leaves out: protocol switches by size, other traffic, overheads of the two ends.
[[nodiscard]] Seconds message_time(Bytes, const LinkCost&);

}  // namespace orrery
