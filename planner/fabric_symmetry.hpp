#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/spec/cluster_spec.hpp"
#include "sim/des/fabric_traffic.hpp"

namespace orrery {

/// Which GPUs and nodes may change places without changing any step.
///
/// Two GPUs of a node are alike where swapping them maps every route onto a route, link by link, onto links of the same
/// capacity, and keeps the levels of the cluster over which all pairs reach each other; so are two nodes, swapped GPU
/// by GPU.  All such swaps of GPUs of one class, and of nodes of one class, together keep every step, so of all
/// placements that they lead to one stands for all.
struct FabricSymmetry {
  std::vector<std::uint32_t> class_of_gpu;   ///< GPUs of a node that are alike have the same number
  std::vector<std::uint32_t> class_of_node;  ///< nodes that are alike have the same number
  std::uint32_t gpus_of_node = 1;
};

/// The symmetry of the first `gpus` GPUs, by trying every swap on every route; `cluster` gives the levels.  Time grows
/// as the fourth power of `gpus`, so it is for small numbers.
[[nodiscard]] FabricSymmetry fabric_symmetry(const FabricTraffic&, const ClusterSpec& cluster, std::uint32_t gpus);
/// Where nothing is alike.
[[nodiscard]] FabricSymmetry no_symmetry(std::uint32_t gpus, std::uint32_t gpus_of_node);

/// Calls `visit` with a placement (device of each rank) of each class of placements that swaps lead to, in
/// lexicographic order, until it says false or `most` have been visited.  Returns whether all were.
///
/// Ranks choose their devices one after the other, of devices that are alike and free only the first: swapping two
/// that are alike and free keeps what has been placed so far.
bool for_each_placement(const FabricSymmetry&, std::uint64_t most,
                        const std::function<bool(const std::vector<std::uint32_t>&)>& visit);

}  // namespace orrery
