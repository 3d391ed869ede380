#include "sim/net/cluster_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/spec/node_kinds.hpp"

namespace orrery {

namespace {

/// A unit's cable at a level. A message crosses two of them.
Link cable(LinkKind kind, const NetworkLevel& level, double devices) {
  return {.kind = kind, .bandwidth = devices * level.bandwidth, .latency = 0.5 * level.latency};
}

/// Links are as wide as those of the widest nodes; the shares say how much of that other nodes have.
std::vector<OtherWiring> shares_of(const ClusterSpec& cluster, const ClusterSpec& widest) {
  std::vector<OtherWiring> out;
  std::uint32_t next = 0;
  const auto add = [&](std::uint32_t kind, std::uint32_t first, std::uint32_t end) {
    if (first == end) return;
    OtherWiring other{first, end - first, {}};
    other.share.fill(1.0);
    std::uint64_t devices = 1;
    for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
      const bool inside = devices < cluster.devices_per_node;
      const LinkKind links = !inside ? LinkKind::network : l == 0 ? LinkKind::nvlink : LinkKind::pcie;
      double& share = other.share[static_cast<std::size_t>(links)];
      share = std::min(share, bandwidth_of(cluster, kind, l) / widest.levels[l].bandwidth);
      devices *= cluster.levels[l].size;
    }
    if (other.share != OtherWiring{}.share) out.push_back(other);
  };
  for (std::uint32_t k = 1; k < node_kinds(cluster); ++k) {
    const OtherNodes& other = cluster.other_nodes[k - 1];
    add(0, next, other.first);
    add(k, other.first, next = other.first + other.count);
  }
  add(0, next, cluster.nodes);
  return out;
}

FabricSpec fabric_of_equal(const ClusterSpec& cluster) {
  FabricSpec f;
  f.name = cluster.name + "'s levels";
  f.source = cluster.source;
  f.nodes = cluster.nodes;
  const std::uint32_t gpus = cluster.devices_per_node;
  f.node.gpus = f.node.nics = gpus;
  // Levels up to the one that completes a node lie inside.
  std::size_t l = 0;
  if (gpus > 1) {
    for (std::uint32_t g = 0; g < gpus; ++g) f.node.vertices.push_back(fmt::format("gpu{}", g));
    for (std::uint32_t g = 0; g < gpus; ++g) f.node.vertices.push_back(fmt::format("nic{}", g));
    std::vector<std::uint32_t> units;      // vertices of the level below
    std::vector<std::uint32_t> innermost;  // switches that devices hang on
    for (std::uint32_t g = 0; g < gpus; ++g) units.push_back(g);
    for (std::uint32_t devices = 1; devices < gpus; ++l) {
      const NetworkLevel& level = cluster.levels[l];
      if (level.size == 1) continue;
      std::vector<std::uint32_t> switches;
      for (std::uint32_t u = 0; u < units.size(); ++u) {
        if (u % level.size == 0) {
          switches.push_back(static_cast<std::uint32_t>(f.node.vertices.size()));
          f.node.vertices.push_back(fmt::format("{}{}", devices == 1 ? "switch" : "joint", switches.size() - 1));
          if (devices > 1) f.node.vertices.back() += fmt::format(".{}", l);
        }
        const LinkKind kind = l == 0 ? LinkKind::nvlink : LinkKind::pcie;
        f.node.wires.push_back({units[u], switches.back(), cable(kind, level, devices)});
      }
      if (devices == 1) {
        for (std::uint32_t g = 0; g < gpus; ++g) innermost.push_back(switches[g / level.size]);
      }
      devices *= level.size;
      units = std::move(switches);
    }
    // The width is four times the network's, which is enough whatever part of it a library reaches.
    Bandwidth widest;
    for (const NetworkLevel& level : cluster.levels) widest = std::max(widest, level.bandwidth);
    const Link way{LinkKind::pcie, 4.0 * widest, Seconds{}};
    for (std::uint32_t g = 0; g < gpus; ++g) {
      const auto port = static_cast<std::uint32_t>(f.node.vertices.size());
      f.node.vertices.push_back(fmt::format("port{}", g));
      // A device's own port is nearest to it; it reaches the others by its neighbours' switch.
      for (const std::uint32_t end : {g, gpus + g, innermost[g]}) f.node.wires.push_back({end, port, way});
    }
  }
  if (cluster.nodes == 1) return f;
  TreeNetwork tree;
  double devices = 1.0;
  std::uint32_t nics = gpus;  // below a unit of the innermost level
  for (; l < cluster.levels.size(); ++l) {
    const NetworkLevel& level = cluster.levels[l];
    if (level.size == 1) continue;
    const std::uint32_t down = level.size * nics;
    tree.levels.push_back({down, 1, cable(LinkKind::network, level, devices)});
    devices *= down;
    nics = 1;
  }
  f.network = std::move(tree);
  return f;
}

}  // namespace

FabricSpec cluster_fabric(const ClusterSpec& cluster) {
  if (!is_mixed(cluster)) return fabric_of_equal(cluster);
  const ClusterSpec widest = equal_nodes(cluster, 0, 0);
  FabricSpec f = fabric_of_equal(widest);
  f.other_nodes = shares_of(cluster, widest);
  return f;
}

std::vector<std::uint32_t> box_sizes(const ClusterSpec& cluster) {
  std::vector<std::uint32_t> out{cluster.devices_per_node};
  std::optional<Bandwidth> inside;  // of the last level that the box holds
  std::uint64_t devices = 1;
  for (const NetworkLevel& level : cluster.levels) {
    devices *= level.size;
    if (devices > cluster.devices_per_node) {
      if (!inside || level.bandwidth < *inside) break;
      if (level.size > 1) out.push_back(static_cast<std::uint32_t>(devices));
    }
    inside = level.bandwidth;
  }
  return out;
}

bool same_boxes(const FabricSpec& fabric, const ClusterSpec& cluster) {
  const std::vector<std::uint32_t> sizes = box_sizes(cluster);
  if (sizes.back() == cluster.devices() && fabric.node.gpus >= sizes.back()) return true;
  return std::find(sizes.begin(), sizes.end(), fabric.node.gpus) != sizes.end();
}

}  // namespace orrery
