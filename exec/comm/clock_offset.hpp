#pragma once

#include <cstdint>
#include <vector>

#include "exec/comm/communicator.hpp"

namespace orrery {

/// Nanoseconds to add to this host's steady clock to get that of rank 0's host.
///
/// The shortest of several round trips tells best: the answer was given in its middle, give or take half of it
/// (Cristian, "Probabilistic clock synchronization", 1989). Rank 0 answers one rank after the other; all must call it.
/// `shares_clock` says for each rank whether its host is rank 0's.
[[nodiscard]] std::int64_t measured_clock_offset(Communicator& control, const std::vector<bool>& shares_clock);

}  // namespace orrery
