#pragma once

#include <vector>

#include "tests/support/net/traffic.hpp"

namespace orrery::test {

/// Max-min fair rates of flows by progressive filling as the textbook has it:
/// all unfixed flows grow together until the first link is full, whose flows
/// are then fixed.  Knows nothing of FlowNetwork.  Capacities and rates in any
/// one unit; routes hold indices of capacities.
[[nodiscard]] std::vector<long double> naive_rates(const std::vector<long double>& capacity,
                                                   const std::vector<std::vector<std::uint32_t>>& routes);

/// What run() gives, with all rates computed anew at every event.
[[nodiscard]] Times run_naive(const Tree&, const Traffic&);

}  // namespace orrery::test
