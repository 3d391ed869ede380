#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// One way to divide all ranks into parts: for each rank its color and its place among the ranks of that color, as
/// ncclCommSplit takes them; color -1: in no part.
struct RankParts {
  std::vector<int> color, key;  ///< by rank
  friend bool operator==(const RankParts&, const RankParts&) = default;
};

/// Says which messages share a communicator. Calls on one communicator run in order, so the finest split is best: a
/// stage's receive from the one before it does not hold back its send to the next. But the messages of one Exchange
/// must be on one communicator, or they would wait for each other.
enum class ExchangeSplit : std::uint8_t {
  channel_and_side,  ///< and by whether the sender's place in its group is even
  channel,
  none
};

/// The communicators that a Program needs besides that of all ranks; every rank works out the same.
///
/// Groups that divide the ranks alike share one. Exchanges have their own, all ranks in each.
struct NcclGroups {
  std::vector<RankParts> parts;
  std::vector<std::optional<std::uint32_t>> of_group;  ///< by GroupId: into parts; nothing: every rank by itself
  ExchangeSplit split = ExchangeSplit::none;
  std::vector<std::uint32_t> exchanges;  ///< keys of their communicators
};
/// The key of a message, the same on both sides.
[[nodiscard]] std::uint32_t exchange_key(ExchangeSplit, std::uint8_t channel, std::uint32_t sender);
[[nodiscard]] NcclGroups nccl_groups(const Program&);

}  // namespace orrery
