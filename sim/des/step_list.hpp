#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.hpp"
#include "core/program/program.hpp"
#include "sim/cost/prices.hpp"

namespace orrery {

/// One op of a class's step list, expanded: waits and partners are resolved to
/// positions in such lists.
struct StepOp {
  enum class Kind : std::uint8_t { untimed, compute, copy, exchange, collective };
  Kind kind = Kind::untimed;
  std::uint8_t lane = 0;  ///< 0 for all ops where a rank does one op at a time
  std::uint16_t transfer_count = 0;
  std::uint32_t first_transfer = 0;  ///< exchange: into StepList::transfers
  std::uint32_t first_wait = 0;
  std::uint32_t wait_count = 0;
  std::uint32_t group = 0;    ///< collective
  std::uint32_t ordinal = 0;  ///< collective: running number of the class on its group
  BlockId block{};            ///< where the op stands
  std::uint32_t op_index = 0;
  Picoseconds duration = 0;  ///< exchange: 0
};

/// A message. The k-th send from one class to another on a channel meets the k-th receive.
struct StepTransfer {
  static constexpr std::uint32_t none = UINT32_MAX;
  bool send = false;
  std::uint8_t channel = 0;
  GroupId group{};
  Peer peer{};
  std::uint32_t partner_class = 0;
  std::uint32_t partner_op = none;  ///< in the partner's list; none: it never comes
  Picoseconds duration = 0;         ///< as the sender's class pays
  std::uint64_t bytes = 0;          ///< of the message
};

/// The step of one class of ranks.  ops[i] is the op with OpId i.
struct StepList {
  std::vector<StepOp> ops;
  std::vector<std::uint32_t> waits;  ///< positions in ops
  std::vector<StepTransfer> transfers;
  std::vector<std::vector<std::uint32_t>> lanes;  ///< timed ops of each lane in order
};

/// The lists of all classes, with partners matched.  Throws Error when a list
/// is too long for 32-bit positions.
[[nodiscard]] std::vector<StepList> step_lists(const Program&, const Prices&);

}  // namespace orrery
