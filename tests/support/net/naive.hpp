#pragma once

#include <vector>

#include "tests/support/net/traffic.hpp"

namespace orrery::test {

/// Max-min fair rates of flows by progressive filling as in the textbook: all unfixed flows grow together until the
/// first link is full, whose flows are then fixed. It does not use FlowNetwork. Capacities and rates are in any one
/// unit; routes hold indices of capacities.
[[nodiscard]] std::vector<long double> naive_rates(const std::vector<long double>& capacity,
                                                   const std::vector<std::vector<std::uint32_t>>& routes);

/// The result of run(), with all rates computed anew at every event.
[[nodiscard]] Times run_naive(const Tree&, const Traffic&);

}  // namespace orrery::test
