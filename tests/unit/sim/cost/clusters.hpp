#pragma once

#include <cstdint>

#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// `nodes` nodes of `per_node` devices with round numbers: 100 TFLOP/s, 1 TB/s;
/// inside a node 100 GB/s and 1 us, between nodes 10 GB/s and 10 us.
inline ClusterSpec round_cluster(std::uint32_t nodes, std::uint32_t per_node) {
  ClusterSpec c;
  c.name = "round";
  c.device.name = "round device";
  c.device.peak = {{Precision::bf16, 100.0 * teraflop_per_second}, {Precision::fp32, 10.0 * teraflop_per_second}};
  c.device.memory = 80.0 * gibibyte;
  c.device.memory_bandwidth = 1000.0 * gigabyte_per_second;
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.levels = {{"inside", per_node, 100.0 * gigabyte_per_second, microsecond},
              {"between", nodes, 10.0 * gigabyte_per_second, 10.0 * microsecond}};
  return c;
}

}  // namespace orrery
