#pragma once

#include <cstdint>
#include <vector>

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

/// How many GPUs a node of a fabric may have for this cluster: those of the cluster's node, and what levels outside it
/// join that are no narrower than the node's own, such as the trays of a rack by NVLink.
[[nodiscard]] std::vector<std::uint32_t> box_sizes(const ClusterSpec&);

/// Whether the fabric's nodes are boxes of the cluster: GPUs have the same numbers in both, and prices of the one go
/// with links of the other.  Where one box holds the whole cluster, the fabric's may be larger.
[[nodiscard]] bool same_boxes(const FabricSpec&, const ClusterSpec&);

}  // namespace orrery
