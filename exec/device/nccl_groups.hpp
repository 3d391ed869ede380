#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// One way to part all ranks: for each its color and its place among those of the same one, as ncclCommSplit takes
/// them; color -1: in no part.
struct RankParts {
  std::vector<int> color, key;  ///< by rank
  friend bool operator==(const RankParts&, const RankParts&) = default;
};

/// What tells the messages of one communicator from those of another.  What is
/// asked of one communicator runs in order, so the finest is best: a stage's
/// receive from the one before it does not hold back its send to the next.  But
/// messages of one Exchange must be of one, or they would wait for each other.
enum class ExchangeSplit : std::uint8_t {
  channel_and_side,  ///< and whether the sender's place in its group is even
  channel,
  none
};

/// Which communicators a Program needs besides that of all ranks; every rank
/// works out the same.
///
/// Groups that part the ranks alike share one.  Exchanges have their own, all
/// ranks in each.
struct NcclGroups {
  std::vector<RankParts> parts;
  std::vector<std::optional<std::uint32_t>> of_group;  ///< by GroupId: into parts; nothing: every rank by itself
  ExchangeSplit split = ExchangeSplit::none;
  std::vector<std::uint32_t> exchanges;  ///< keys of their communicators
};
/// Of a message; the same on both sides.
[[nodiscard]] std::uint32_t exchange_key(ExchangeSplit, std::uint8_t channel, std::uint32_t sender);
[[nodiscard]] NcclGroups nccl_groups(const Program&);

}  // namespace orrery
