#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "core/base/ids.hpp"
#include "core/plan/mesh.hpp"
#include "core/program/buffer.hpp"

namespace orrery {

/// A contiguous part of one of the block's flat arrays.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  /// An empty range has no place: all empty ranges are equal.
  friend bool operator==(const Range& a, const Range& b) {
    return a.count == b.count && (a.count == 0 || a.first == b.first);
  }
};

/// Part of a buffer, in elements, and what the op does with it.
///
/// The view's instance is the one of the slot's layer plus `layer_shift` and of the slot's microbatch. With
/// `member_of`, the offset advances by `count` for every coordinate along those axes: each rank names its own part of a
/// flat buffer although all ranks share the op.
struct View {
  enum class Use : std::uint8_t { read, write, accumulate };
  BufferId buffer{};
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  Use use = Use::read;
  std::int8_t layer_shift = 0;
  AxisList member_of;
  friend bool operator==(const View&, const View&) = default;
};

/// Where an op queues: ops on one lane of one rank run in list order.
enum class LaneKind : std::uint8_t {
  compute,
  collective,  ///< index: the mesh axis, all_lane or gather_lane
  transfer,    ///< index: TransferLane
  copy,        ///< index: direction between memory tiers
  host,        ///< compute on the host's cores, beside the device's
};
/// Index of the lane for collectives of groups over several axes.
inline constexpr std::uint8_t all_lane = axis_count;
/// Index of the lane for parameter gathers: they run ahead of use and must not queue behind the reductions of the same
/// axis.
inline constexpr std::uint8_t gather_lane = axis_count + 1;
/// Transfers between pipeline stages; each direction and end has its own lane,
/// so that a posted receive never holds back a send.
enum class TransferLane : std::uint8_t { forward_receive, forward_send, backward_receive, backward_send };

struct Lane {
  LaneKind kind = LaneKind::compute;
  std::uint8_t index = 0;
  friend bool operator==(const Lane&, const Lane&) = default;
};
/// Dense number of a lane, for arrays over all lanes.
inline constexpr std::size_t lane_count = 1 + (axis_count + 2) + 4 + 4 + 1;
[[nodiscard]] constexpr std::size_t lane_number(Lane lane) {
  switch (lane.kind) {
    case LaneKind::compute: return 0;
    case LaneKind::collective: return 1U + lane.index;
    case LaneKind::transfer: return 1U + axis_count + 2U + lane.index;
    case LaneKind::copy: return 1U + axis_count + 2U + 4U + lane.index;
    case LaneKind::host: return 1U + axis_count + 2U + 4U + 4U;
  }
  return 0;
}

/// Whether the lane is for incoming messages.
[[nodiscard]] constexpr bool is_receive(Lane lane) {
  return lane.kind == LaneKind::transfer && (lane.index == static_cast<std::uint8_t>(TransferLane::forward_receive) ||
                                             lane.index == static_cast<std::uint8_t>(TransferLane::backward_receive));
}

/// What an op waits for, besides the earlier ops of its own lane.
///   op     an earlier op of the same block
///   tail   the last op issued on `lane` before this run of the block began (of a receive lane: Slot::receives_ahead
///          ops earlier)
struct Wait {
  enum class Kind : std::uint8_t { op, tail };
  Kind kind = Kind::op;
  Lane lane;             ///< tail only
  std::uint32_t op = 0;  ///< op only: position in the block
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// Index into Block::kernels.
struct Compute {
  std::uint32_t kernel = 0;
  friend bool operator==(const Compute&, const Compute&) = default;
};

/// Views:  all_reduce        each view (accumulate) is reduced in place
///         all_gather        pairs (read part, write whole); part i of the whole is member i's
///         reduce_scatter    pairs (read whole, write part)
///                           (the part may be accumulate: the sum is added to it)
///         broadcast, reduce each view (accumulate), the root holds source or result in place;
///                           or pairs (read, write): broadcast copies the root's source into every member's
///                           copy, reduce writes the sum of all sources on the root and nothing elsewhere
///                           (the root's may be accumulate: the sum is added to it)
///         all_to_all        pairs (read, write), equal parts per peer
///         permute           pairs (read, write): every run of `width` consecutive peers is a ring, and what a
///                           member reads goes to the one `root` places further on
///         barrier           none
/// The views of one collective travel as one message.
struct Collective {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all,
    permute,
    barrier
  };
  enum class Reduction : std::uint8_t { sum, max };
  Kind kind = Kind::all_reduce;
  Reduction reduction = Reduction::sum;
  GroupId group{};
  Peer root{};              ///< broadcast and reduce; the distance of a permute
  std::uint32_t width = 0;  ///< permute: members of one ring, a divisor of the group's size; 0: all
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// One message of an Exchange.  The k-th send on a channel from a to b meets
/// the k-th receive on that channel at b from a.
struct Transfer {
  bool send = true;
  Peer peer{};  ///< in `group`
  GroupId group{};
  std::uint8_t channel = 0;  ///< 0 activations, 1 gradients
  std::uint32_t view = 0;    ///< position in the op's views
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Sends and receives issued as one; the op is done when all of them are.
struct Exchange {
  Range transfers;  ///< into Block::transfers
  friend bool operator==(const Exchange&, const Exchange&) = default;
};

/// Views: pairs (read, write).
struct Copy {
  Tier from = Tier::device;
  Tier to = Tier::host;
  friend bool operator==(const Copy&, const Copy&) = default;
};

/// The instance of `what` comes to life, or ends, in issue order.  Takes no lane.
struct Alloc {
  BufferId what{};
  std::int8_t layer_shift = 0;
  friend bool operator==(const Alloc&, const Alloc&) = default;
};
struct Free {
  BufferId what{};
  std::int8_t layer_shift = 0;
  friend bool operator==(const Free&, const Free&) = default;
};

/// One operation of one block.
///
/// An Op says what is done and to which views, never how long it takes: sim/
/// prices it, exec/ runs it, and both see the same list in the same order.
/// Ops on one lane run in list order; waits on earlier ops and the operands
/// stand in the block's flat arrays.  Ranks wait for each other only inside
/// Exchange and Collective.
struct Op {
  std::variant<Compute, Collective, Exchange, Copy, Alloc, Free> action;
  Lane lane;    ///< no meaning for Alloc and Free
  Range waits;  ///< into Block::waits
  Range views;  ///< into Block::views
  friend bool operator==(const Op&, const Op&) = default;
};

/// Whether the operands are pairs of source and result, by kind or, for
/// broadcast and reduce, by what the first two views do.
struct Block;
[[nodiscard]] bool is_paired(const Block&, const Op&, const Collective&);

[[nodiscard]] std::string_view name_of(Collective::Kind);
/// "compute", "tensor", "all", "forward-send", "copy-0": the name of a lane in listings.
[[nodiscard]] std::string_view name_of(Lane);

}  // namespace orrery
