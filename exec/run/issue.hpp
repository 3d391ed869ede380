#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "core/program/program.hpp"
#include "exec/run/storage.hpp"

namespace orrery {

/// A group as one rank sees it.
struct GroupHere {
  std::vector<Rank> ranks;
  std::optional<Peer> peer;  ///< of this rank
};
/// By GroupId.
[[nodiscard]] std::vector<GroupHere> groups_of(const Program&, Rank);

/// Only the ranks of the groups.
[[nodiscard]] std::vector<std::vector<Rank>> ranks_of_groups(const Program&, Rank);

/// An op with everything that the order of issue decides: the memory of its views, and the partners' ops that it meets.
/// It may run after later ops have been issued, and it keeps its memory alive.
struct IssuedOp {
  OpRun run{};
  std::uint64_t step = 0;                               ///< of data and dropout; 0 in setup
  std::vector<std::shared_ptr<InstanceMemory>> memory;  ///< by view
  std::vector<std::uint64_t> tags;                      ///< Collective: one; Exchange: by transfer
};

/// Issues the ops of one rank, in list order, on one thread.
///
/// The k-th collective on a group and the k-th transfer on a channel between
/// two ranks are counted here, so that partners meet whatever their lanes do.
class Issuer {
 public:
  Issuer(const Program&, const std::vector<GroupHere>&, Storage&);

  /// Fills `issued`; an Alloc or Free takes effect at once.
  void issue(const OpRun&, std::uint64_t step, IssuedOp& issued);

 private:
  const Program& program_;
  const std::vector<GroupHere>& groups_;
  Storage& storage_;
  std::vector<std::uint32_t> collectives_;                                   // by group
  std::map<std::tuple<bool, std::uint8_t, Rank>, std::uint32_t> transfers_;  // by direction, channel and partner
};

/// The tag of messages that belong to no op of the list: they keep ranks in step.
inline constexpr std::uint64_t barrier_tag = std::uint64_t{0x7fffffffU} << 32;

}  // namespace orrery
