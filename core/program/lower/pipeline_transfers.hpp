#pragma once

#include "core/program/lower/context.hpp"
#include "core/program/lower/schedule.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

/// What a stage does, with the messages that its compute order implies.
struct StageAction {
  enum class Kind : std::uint8_t { forward, backward, receive_hidden, send_hidden, receive_gradient, send_gradient };
  Kind kind = Kind::forward;
  std::uint32_t microbatch = 0;
  friend bool operator==(const StageAction&, const StageAction&) = default;
};

/// Adds receives before and sends after the computes that need them.
///
/// Where a stage turns from a backward to a forward, it receives the forward's
/// input before it sends the backward's gradient; the previous stage, turning
/// from forward to backward, sends first and then receives.  With that one
/// rule all stages' lists admit a common order even where every message
/// blocks both ends (tests/property/core), and on devices with concurrent
/// lanes receives are posted early and nothing waits.
[[nodiscard]] std::vector<StageAction> with_transfers(const std::vector<ComputeAction>& order, std::uint32_t stage,
                                                      std::uint32_t stages);

/// Blocks of the four messages of one stage; those that it lacks stay unset.
struct TransferBlocks {
  BlockId receive_hidden{}, send_hidden{}, receive_gradient{}, send_gradient{};
};
[[nodiscard]] TransferBlocks build_transfers(Context&, const ModelBlocks&, std::uint32_t stage);

}  // namespace orrery::lowering
