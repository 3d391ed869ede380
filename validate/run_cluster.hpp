#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// The cluster that a row was measured on.
struct RunCluster {
  std::optional<ClusterSpec> cluster;
  std::string reason;               ///< of having none
  std::vector<std::string> filled;  ///< columns whose empty cells a rule filled
};

/// A shipped device and cluster by the row's gpu cell, changed as far as the row says so: GPUs per node, device memory,
/// and the network between nodes ("8x200Gb/s ... per node", "400 Gb/s ... per GPU", "1600 Gb/s node-node ...").
/// intra_link tells PCIe from NVLink.
[[nodiscard]] RunCluster run_cluster(const MeasuredRun&, const Library&);

/// Bandwidth between nodes, one way for each of `per_node` devices, as a
/// network cell states it; unset where it cannot be read.
[[nodiscard]] std::optional<Bandwidth> network_share(const std::string& text, std::uint32_t per_node);

}  // namespace orrery
