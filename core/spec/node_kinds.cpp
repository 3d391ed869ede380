#include "core/spec/node_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

std::uint32_t kind_of_node(const ClusterSpec& cluster, std::uint32_t node) {
  for (std::uint32_t k = 0; k < cluster.other_nodes.size(); ++k) {
    const OtherNodes& other = cluster.other_nodes[k];
    if (node >= other.first && node - other.first < other.count) return k + 1;
  }
  return 0;
}

std::uint32_t kind_of_device(const ClusterSpec& cluster, std::uint32_t device) {
  return is_mixed(cluster) ? kind_of_node(cluster, device / cluster.devices_per_node) : 0;
}

const DeviceSpec& device_of(const ClusterSpec& cluster, std::uint32_t kind) {
  ORRERY_ASSERT(kind < node_kinds(cluster), kind);
  return kind == 0 ? cluster.device : cluster.other_nodes[kind - 1].device;
}

Bandwidth bandwidth_of(const ClusterSpec& cluster, std::uint32_t kind, std::size_t level) {
  ORRERY_ASSERT(kind < node_kinds(cluster) && level < cluster.levels.size(), kind, level);
  if (kind == 0 || cluster.other_nodes[kind - 1].bandwidths.empty()) return cluster.levels[level].bandwidth;
  return cluster.other_nodes[kind - 1].bandwidths[level];
}

Bytes least_memory(const ClusterSpec& cluster) {
  Bytes least = cluster.device.memory;
  for (const OtherNodes& other : cluster.other_nodes) least = std::min(least, other.device.memory);
  return least;
}

std::optional<FlopRate> total_peak(const ClusterSpec& cluster, Precision precision, std::uint64_t devices) {
  FlopRate sum;
  std::uint64_t left = devices;
  const auto add = [&](const DeviceSpec& device, std::uint64_t count) {
    const auto peak = device.peak.find(precision);
    if (peak == device.peak.end()) return false;
    sum += static_cast<double>(count) * peak->second;
    left -= count;
    return true;
  };
  for (const OtherNodes& other : cluster.other_nodes) {
    const std::uint64_t first = std::uint64_t{other.first} * cluster.devices_per_node;
    const std::uint64_t count = std::uint64_t{other.count} * cluster.devices_per_node;
    if (first < devices && !add(other.device, std::min(count, devices - first))) return std::nullopt;
  }
  if (left > 0 && !add(cluster.device, left)) return std::nullopt;
  return sum;
}

std::string devices_text(const ClusterSpec& cluster) {
  std::uint64_t own = cluster.devices();
  std::string others;
  for (const OtherNodes& other : cluster.other_nodes) {
    const std::uint64_t count = std::uint64_t{other.count} * cluster.devices_per_node;
    own -= count;
    others += fmt::format(" and {} x {}", count, other.device.name);
  }
  return fmt::format("{} x {}{}", own, cluster.device.name, others);
}

ClusterSpec equal_nodes(const ClusterSpec& cluster, std::uint32_t kind, NodeKinds kinds) {
  ClusterSpec out = cluster;
  out.other_nodes.clear();
  out.device = device_of(cluster, kind);
  for (std::size_t l = 0; l < out.levels.size(); ++l) {
    NetworkLevel& level = out.levels[l];
    std::optional<Bandwidth> at;
    for (std::uint32_t k = 0; k < node_kinds(cluster); ++k) {
      const Bandwidth b = bandwidth_of(cluster, k, l);
      if (kinds == 0) {
        at = at ? std::max(*at, b) : b;
      } else if ((kinds >> k & 1U) != 0) {
        at = at ? std::min(*at, b) : b;
      }
    }
    level.bandwidth = at.value_or(level.bandwidth);
    for (SizedRate& r : level.rates) r.rate = std::min(r.rate, level.bandwidth);
  }
  return out;
}

}  // namespace orrery
