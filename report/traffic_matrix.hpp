#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// Who sends how many bytes to whom in one step, ranks put together in equal runs.
struct TrafficMatrix {
  std::uint32_t ranks_in_cell = 1;         ///< ranks of one row: i * ranks_in_cell to (i + 1) * ranks_in_cell - 1
  std::vector<std::vector<double>> bytes;  ///< [from][to]
};

/// The traffic of a Program's step by rings: a member of a collective sends to the next one (all_to_all: to each of the
/// others alike; permute: so many places further), messages go where they say. The sum is what reports give as sent
/// bytes, but for the uneven last bytes of rings. At most `most` rows.
[[nodiscard]] TrafficMatrix traffic_matrix(const Program&, std::uint32_t most = 64);

/// The same put together by who is on the other side.
struct GroupTraffic {
  std::string what;         ///< "all_reduce tensor", "exchange"
  std::uint64_t count = 0;  ///< ops of all ranks
  double bytes = 0.0;       ///< sent by all ranks
};
[[nodiscard]] std::vector<GroupTraffic> group_traffic(const Program&);

}  // namespace orrery
