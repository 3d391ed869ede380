#pragma once

#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// A time that no placement of the Program's ranks undercuts: the step with every collective at the price of the
/// cheapest way in which so many members can lie on the cluster's levels, every message over the quickest level, and
/// each with the links to itself.
///
/// Requires a CostModel of the Program's mesh; which placement it has changes nothing but what compute loses beside
/// collectives, and that is left out.
[[nodiscard]] Seconds least_anywhere(const Program&, const CostModel&);

/// Every way in which `members` can lie on the levels of a cluster, as far as prices tell them apart; empty where there
/// are more than `most`.
[[nodiscard]] std::vector<GroupShape> possible_shapes(std::uint32_t members, const ClusterSpec&,
                                                      std::size_t most = 20'000);

}  // namespace orrery
