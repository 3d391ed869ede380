#pragma once

#include <vector>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Adds receives before and sends after the computes that need them.
///
/// Where a stage turns from a backward to a forward, it receives the forward's
/// input before it sends the backward's gradient; the previous stage, turning
/// from forward to backward, sends first and then receives.  With that one
/// rule all stages' lists admit a common order even where every message
/// blocks both ends (tests/property/core), and on devices with concurrent
/// lanes receives are posted early and nothing waits.
[[nodiscard]] std::vector<Action> with_transfers(const std::vector<Action>& order, std::uint32_t stage,
                                                 std::uint32_t stages);

}  // namespace orrery::lowering
