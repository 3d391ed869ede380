#pragma once

#include <cstdint>

#include "core/program/program.hpp"

namespace orrery {

/// Bytes that `rank` sends for one op: its part of a ring algorithm for a
/// Collective (ring_bytes_sent over the views, which travel as one message),
/// the sent views of an Exchange, 0 for all others.
[[nodiscard]] std::uint64_t sent_bytes(const Program&, const Block&, const Op&, Rank rank);

/// The same, summed over all members of the Collective's group.
[[nodiscard]] std::uint64_t group_sent_bytes(const Program&, const Block&, const Op&);

}  // namespace orrery
