#include "forecast/checkpoint_time.hpp"

#include <algorithm>

namespace orrery {

std::optional<CheckpointTime> checkpoint_time(const CheckpointSize& size, const ClusterSpec& cluster,
                                              const ReliabilitySpec& r, SaveWay way, double exposed_network,
                                              std::vector<std::string>& unknown) {
  if (!r.storage_rate_per_node && !r.storage_rate_total) {
    unknown.emplace_back("storage_rate_per_node");
    return std::nullopt;
  }
  Bandwidth rate = r.storage_rate_per_node ? r.storage_rate_per_node->value : r.storage_rate_total->value;
  if (r.storage_rate_total) rate = std::min(rate, r.storage_rate_total->value / static_cast<double>(cluster.nodes));
  Bandwidth network;
  if (cluster.nodes > 1 && !cluster.levels.empty()) {
    network = static_cast<double>(cluster.devices_per_node) * cluster.levels.back().bandwidth;
    rate = std::min(rate, network);
  }
  CheckpointTime out;
  out.node_rate = rate;
  out.load = Bytes::of(size.held_by_node) / rate;
  const std::optional<DeviceLinks>& links = cluster.device.links;
  if (cluster.host_link || links) {
    out.host_copy = Bytes::of(size.written_by_rank) / (cluster.host_link ? *cluster.host_link : links->host);
  }
  const Seconds write = Bytes::of(size.written_by_node) / rate;
  if (way == SaveWay::blocking) {
    out.blocking = write;
    return out;
  }
  if (!out.host_copy) {
    unknown.emplace_back("host_link");
    return std::nullopt;
  }
  const double taken = network.base() > 0.0 ? rate / network : 0.0;
  out.blocking = *out.host_copy + exposed_network * taken * write;
  out.until_it_counts = write;
  return out;
}

}  // namespace orrery
