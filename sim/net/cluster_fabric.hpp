#pragma once

#include <cstdint>
#include <vector>

#include "core/spec/cluster_spec.hpp"
#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// The links that a cluster's network levels imply. Below every unit of a level is a switch, to which the units of the
/// level below are attached by one cable each. A cable is as wide as all the unit's devices together are at that level.
///
///     C_l = b_l D_l       C_l  cable of a unit at level l   b_l  bandwidth per device there   D_l  devices below the
///     cable
///
/// So a collective that is alone takes its price, and two that meet share the bandwidth that the cluster file states.
/// Each device has one network port, by a way that holds nothing back, since cluster files say nothing of it. A fabric
/// file says more: rails, oversubscription, several switches to choose from.
///
/// Nodes of several kinds have their own share of the widest links; units above nodes are as wide as the widest nodes
/// would have them.
[[nodiscard]] FabricSpec cluster_fabric(const ClusterSpec&);

/// The numbers of GPUs that a node of a fabric may have for this cluster. One is that of the cluster's node; others
/// follow from levels outside it that are no narrower than the node's own, such as the trays of a rack joined by
/// NVLink.
[[nodiscard]] std::vector<std::uint32_t> box_sizes(const ClusterSpec&);

/// Whether the fabric's nodes are boxes of the cluster: then GPUs have the same numbers in both, and prices of the one
/// go with links of the other. Where one box holds the whole cluster, the fabric's may be larger.
[[nodiscard]] bool same_boxes(const FabricSpec&, const ClusterSpec&);

}  // namespace orrery
