#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// A part of a list of slots that repeats itself. Each slot but the last `period` equals the slot `period` places on,
/// which belongs to the microbatch `shift` later.
struct SlotCycle {
  std::size_t first = 0, last = 0;  ///< the part is [first, last)
  std::size_t period = 0;
  std::int32_t shift = 0;
  friend bool operator==(const SlotCycle&, const SlotCycle&) = default;
};

/// Parts of at least three periods, in order and apart. Several may be possible, and the choice is a matter of speed:
/// it looks around the middle of the list first, then around the middle of what is left.
[[nodiscard]] std::vector<SlotCycle> slot_cycles(const std::vector<Slot>&);

}  // namespace orrery
