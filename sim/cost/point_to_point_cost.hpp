#pragma once

#include <optional>

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/derivation.hpp"

namespace orrery {

/// One direction of one link of a network level, per device.
struct LinkCost {
  Seconds latency;      ///< of one message
  Bandwidth bandwidth;  ///< one way
  RateTable rates{};    ///< bytes/s over the bytes of a message, at most `bandwidth`; none: `bandwidth` at any size
  std::optional<SwitchSum> switches{};  ///< whether they add what they pass on
  // Ratio of `bandwidth` and `rates` to the level's own: efficiency / slower / pairs.
  double efficiency = 1.0;  ///< Calibration::level_efficiency
  double slower = 1.0;      ///< SoftwareCost::network; 1 inside a node
  double pairs = 1.0;       ///< LinkCurve::pairs
  std::size_t level = 0;    ///< of the cluster's network
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// Rate of a message of some size.
[[nodiscard]] Bandwidth bandwidth_at(const LinkCost&, Bytes message, Derivation* why = nullptr);

/// Time of one message.
///
///     T = a + n / b(n)
///
///     n  bytes     a  latency     b  bandwidth, one way, of messages of that size
///
/// Source: Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994. b by size comes from the
/// cluster's file, which is how protocol switches are seen.
/// Leaves out: other traffic, overheads of the two ends.
[[nodiscard]] Seconds message_time(Bytes, const LinkCost&, Derivation* why = nullptr);
/// Notes the latency of a link.
void tell_latency(Derivation&, const LinkCost&);

}  // namespace orrery
