#pragma once

#include "core/spec/cluster_spec.hpp"
#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// The links that a cluster's levels of network promise: below every unit of a level a switch, on which the units of
/// the level below hang by one cable that is as wide as all their devices are at that level.
///
///     C_l = b_l D_l       C_l  cable of a unit at level l   b_l  bandwidth per device there   D_l  devices below the
///     cable
///
/// So a collective that is alone takes its price, and two that meet share what the cluster file says.  One network port
/// to a device, by a way that holds nothing back, since cluster files say nothing of it.  A fabric file says more:
/// rails, oversubscription, several switches to choose from.
///
/// Nodes of several kinds have their own share of the widest links; units above nodes are as wide as the widest nodes
/// would have them.
[[nodiscard]] FabricSpec cluster_fabric(const ClusterSpec&);

}  // namespace orrery
