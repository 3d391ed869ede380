#pragma once

#include <cstdint>

#include "core/base/units.hpp"

namespace orrery {

/// Nodes under repair, in the mean.
///
///     mean = N r t      N nodes, r failures of one in a second, t time of a repair
///
/// Source: Little's law.
[[nodiscard]] double mean_nodes_down(double nodes, double failures_per_node_second, Seconds repair);

/// The least number of spares with which at least `share` of the time no node is missing.
///
/// Nodes under repair are Poisson with the mean above, whatever the distribution of repair times. Source: the M/G/inf
/// queue (Kleinrock, "Queueing Systems", volume 1, 1975). Leaves out: failures of spares, groups that fail together.
[[nodiscard]] std::uint64_t spares_for(double mean_down, double share);

/// Chance that more than `spares` nodes are down.
[[nodiscard]] double share_without_spare(double mean_down, std::uint64_t spares);

}  // namespace orrery
