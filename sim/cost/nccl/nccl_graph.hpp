#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"

namespace orrery {

/// Channels of one kind of graph, all alike, and the rate of each.
struct NcclChannels {
  std::uint32_t count = 0;  ///< 0: there is no such graph
  double inside = 0.0;      ///< GB/s within a node
  double between = 0.0;     ///< GB/s between nodes
  friend bool operator==(const NcclChannels&, const NcclChannels&) = default;
};

/// What the search for channels finds.
struct NcclGraphs {
  NcclChannels ring, tree, nvls;
  friend bool operator==(const NcclGraphs&, const NcclGraphs&) = default;
};

/// What joins the members of a group, as NCCL's search sees it: domains that NVLink and its switches join, called
/// nodes, and a network port for each member.
struct NcclTopology {
  GpuGeneration generation = GpuGeneration::hopper;
  std::uint32_t ranks = 1;
  std::uint32_t nodes = 1;     ///< domains that hold a member
  std::uint32_t per_node = 1;  ///< fewest members in one of them
  Bandwidth nvlink;            ///< from a device into its domain, one way, by its datasheet
  Bandwidth port;              ///< a device's share of the network, one way; unused for one node
  bool collnet = false;        ///< the network's switches reduce
  NcclGraphs found{};          ///< by NCCL itself: those of `count` 0 are derived
  friend bool operator==(const NcclTopology&, const NcclTopology&) = default;
};

/// Channels for members of one topology. They are those that NCCL has been seen to find, or
///
///     one node    w = first of the speeds inside that L holds,  c = floor(L / w);  twice as many at half the speed
///     from 25 GB/s on more        w = first of the speeds between that a port and L / c hold,  c = members of a node,
///     16 at most NVLS        c = heads = members of a node, 8 at most;  w = first of the speeds inside that L / c
///     holds
///
///     L  GB/s that NCCL counts of a device's NVLinks
///
/// Trees run over the channels of rings. When there are more than 4 channels that move less than 50 GB/s, they are not
/// doubled since Hopper. On one board this is what NCCL's logs show: 12 x 20 (A100), 12 x 30 and 8 heads of 40 (H100),
/// 16 x 45 and 8 of 90 (B200). Source: derived from NVIDIA, NCCL 2.28.9, src/graph/search.cc: the speeds it tries, and
/// in which order. Leaves out PCIe inside a node, several ports for a device, and the search itself.
[[nodiscard]] NcclGraphs nccl_graphs(const NcclTopology&);

}  // namespace orrery
