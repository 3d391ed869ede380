#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"
#include "core/spec/channel_graph.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// How switches add what members of a collective send them, and copy the sum back.
enum class SwitchSum : std::uint8_t {
  nvls,  ///< members read sums and write copies through the switch (NVLink SHARP)
  sharp  ///< a tree of switches adds on the way up and copies on the way down (SHARP)
};

/// What joins a device to others in the box that it is sold in. Clusters have levels of their own; this is where those
/// of a cluster in one word (core/spec/cluster_word.hpp) come from.
struct DeviceLinks {
  Bandwidth host;              ///< to the host's memory, one way
  std::string name;            ///< of the links to other devices, "nvlink"; empty: PCIe is all there is
  Bandwidth peers;             ///< to the other devices of the box, one way
  std::uint32_t most = 8;      ///< devices that these links join
  std::uint32_t per_node = 0;  ///< devices of one host; 0: as many as the links join
  Bandwidth network;           ///< of the network port that such a box has for each device; 0: not known
  std::optional<SwitchSum> switches;
  friend bool operator==(const DeviceLinks&, const DeviceLinks&) = default;
};

/// One kind of accelerator (or CPU core used as one), with datasheet figures.
struct DeviceSpec {
  std::string name;
  std::map<Precision, FlopRate> peak;  ///< dense matrix peak by compute precision; absent: not supported
  Bytes memory;
  Bandwidth memory_bandwidth;
  bool concurrent_lanes = true;       ///< communication and copies progress beside compute; false: one op at a time
  std::uint32_t cores_shared = 0;     ///< > 0: devices of a node share this many cores (CPU ranks), see sim/cost
  std::uint32_t multiprocessors = 0;  ///< tiles of a matrix product in flight; 0: as the calibration says
  /// Rates that large matrix products were measured to reach, at the clock that the board's power leaves.
  std::map<Precision, FlopRate> reached;
  std::string reached_source;
  std::optional<DeviceLinks> links;
  std::string calibration;  ///< name of the shipped calibration; empty: "datasheet", for GPUs that none was measured on
  std::string source;
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// The rate at which a message of some size moves, after its latency.
struct SizedRate {
  Bytes message;
  Bandwidth rate;
  friend bool operator==(const SizedRate&, const SizedRate&) = default;
};

/// One level of the network, from the inside out.  `size` units of the level
/// below form one unit of this level; all devices below a level's unit reach
/// each other over it.
struct NetworkLevel {
  std::string name;        ///< "nvlink", "infiniband"
  std::uint32_t size = 1;  ///< devices (first level) or lower units per unit
  Bandwidth bandwidth;     ///< per device, one direction
  Seconds latency;         ///< of one message
  /// Sizes ascend, and rates are at most `bandwidth`. Between two sizes a power law holds, outside them the nearest
  /// rate. Neither the rate nor the time falls when bytes grow. An empty list means `bandwidth` at any size.
  std::vector<SizedRate> rates{};
  std::string rates_source{};  ///< of a measured curve: where it is from
  std::optional<SwitchSum> switches{};
  std::uint32_t most = 0;  ///< units that fit where a number of devices asks for it; 0: as many as `size`
  friend bool operator==(const NetworkLevel&, const NetworkLevel&) = default;
};

/// Storage of a node below the host's memory.
struct DiskSpec {
  Bytes capacity;         ///< per node
  Bandwidth read, write;  ///< per node
  Seconds latency;        ///< of one copy, before its first byte
  friend bool operator==(const DiskSpec&, const DiskSpec&) = default;
};

/// Nodes of a cluster that differ from its others: they have other devices, or wider or narrower links.
struct OtherNodes {
  std::uint32_t first = 0, count = 1;
  DeviceSpec device;
  std::vector<Bandwidth> bandwidths;  ///< for their devices at each of the cluster's levels; empty: the levels' own
  friend bool operator==(const OtherNodes&, const OtherNodes&) = default;
};

/// The cluster that the run is on: `nodes` x `devices_per_node` devices, equal except for those of `other_nodes`.
struct ClusterSpec {
  static constexpr std::size_t most_other_nodes = 7;
  std::string name;
  DeviceSpec device;
  std::vector<OtherNodes> other_nodes;  ///< ascending, disjoint (core/spec/node_kinds.hpp)
  std::uint32_t nodes = 1;
  std::uint32_t devices_per_node = 1;
  std::vector<NetworkLevel> levels;         ///< innermost first; sizes multiply to devices()
  Bytes host_memory;                        ///< per node
  std::optional<Bandwidth> host_link;       ///< between a device and the host's memory, one direction
  std::optional<Bandwidth> host_bandwidth;  ///< of the host's memory, per node
  std::optional<DiskSpec> disk;
  std::optional<double> price_per_gpu_hour;
  std::string price_currency = "USD";
  std::string price_source;            ///< whose price, and of when
  std::vector<ChannelGraph> channels;  ///< channels that NCCL found on this cluster; for other groups they are derived
  std::string source;
  std::vector<std::string> assumed;  ///< of a cluster in one word: what the word does not say
  Origin origin;

  [[nodiscard]] std::uint64_t devices() const { return std::uint64_t{nodes} * devices_per_node; }
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

}  // namespace orrery
