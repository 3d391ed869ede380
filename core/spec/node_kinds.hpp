#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// The kinds of nodes of a cluster: 0 for those that are as the cluster says, k for other_nodes[k - 1].
///
/// Devices are numbered node by node, so a placement decides which ranks compute on which kind.  A set of kinds is a
/// number with bit k for kind k.
using NodeKinds = std::uint8_t;

[[nodiscard]] inline bool is_mixed(const ClusterSpec& cluster) { return !cluster.other_nodes.empty(); }
[[nodiscard]] inline std::uint32_t node_kinds(const ClusterSpec& cluster) {
  return 1 + static_cast<std::uint32_t>(cluster.other_nodes.size());
}
[[nodiscard]] std::uint32_t kind_of_node(const ClusterSpec&, std::uint32_t node);
[[nodiscard]] std::uint32_t kind_of_device(const ClusterSpec&, std::uint32_t device);
[[nodiscard]] const DeviceSpec& device_of(const ClusterSpec&, std::uint32_t kind);
/// Bandwidth of one device of such a node at a level, in one direction.
[[nodiscard]] Bandwidth bandwidth_of(const ClusterSpec&, std::uint32_t kind, std::size_t level);

/// Memory that every device has at least: a plan whose ranks fit there fits anywhere.
[[nodiscard]] Bytes least_memory(const ClusterSpec&);
/// Matrix peak of `devices` devices, from number 0 on; empty where one of them does not compute in that precision.
[[nodiscard]] std::optional<FlopRate> total_peak(const ClusterSpec&, Precision, std::uint64_t devices);
/// "32 x H100", or "32 x H100 and 16 x A100".
[[nodiscard]] std::string devices_text(const ClusterSpec&);

/// A cluster of equal nodes with the devices of `kind`. Its links are those that members on nodes of all `kinds` have
/// in common: the narrowest at each level. Without kinds they are the widest of all.
[[nodiscard]] ClusterSpec equal_nodes(const ClusterSpec&, std::uint32_t kind, NodeKinds kinds);

}  // namespace orrery
