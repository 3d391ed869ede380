#pragma once

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

/// Adds receives before and sends after the computes that need them, wherever
/// neighbouring virtual stages lie on different ranks.
///
/// A send stands behind the compute that makes it, a receive in front of the one that needs it, unless that would
/// deadlock where every message blocks both ends. The lists are made by running them that way. Where two ranks would
/// each wait with a send for the other, the forward message is received early. Where more than two wait in a ring, one
/// message of the ring is received early. So all ranks' lists admit a common order, and the k-th message between two
/// ranks is the same at both ends. With concurrent lanes receives are posted early and nothing waits: a pass that
/// stands behind a receive for a later one passes over it (Slot::receives_ahead). Receives of one direction queue on
/// one lane, also those from two neighbours on a V.
///
/// Requires orders that can run when messages take no time: each rank's list ends if ranks wait only for what they
/// need.
[[nodiscard]] Orders with_transfers(const Orders&, const StageMap&, std::uint32_t microbatches);

}  // namespace orrery::lowering
