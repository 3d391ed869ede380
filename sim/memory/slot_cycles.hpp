#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// Part of a list of slots that repeats itself: each but the last `period` is the slot `period` places on, of `shift`
/// microbatches later.
struct SlotCycle {
  std::size_t first = 0, last = 0;  ///< the part is [first, last)
  std::size_t period = 0;
  std::int32_t shift = 0;
  friend bool operator==(const SlotCycle&, const SlotCycle&) = default;
};

/// Parts of at least three periods, in order and apart.  Which of several it finds is a matter of speed: it looks
/// around the middle of the list first, then around the middle of what is left.
[[nodiscard]] std::vector<SlotCycle> slot_cycles(const std::vector<Slot>&);

}  // namespace orrery
