#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// Which way a message goes where there are several.
enum class PathRule : std::uint8_t {
  by_destination,  ///< D-mod-k: the destination's number decides
  hashed,          ///< ECMP: a hash of source, destination and seed decides
  rail_local       ///< by destination; leaves the node by the NIC of the destination's number, reached over NVLink
};

/// The links between the GPUs of a cluster.
///
/// One node's wiring is kept for all of them, and the network between them
/// computes its routes: 131,072 GPUs take no more memory than eight.  Links are
/// numbered node by node, then the network's.  GPU g of node n is n * gpus + g.
class Fabric {
 public:
  explicit Fabric(FabricSpec);

  [[nodiscard]] const FabricSpec& spec() const { return spec_; }
  [[nodiscard]] std::uint32_t gpus() const { return static_cast<std::uint32_t>(spec_.gpus()); }
  [[nodiscard]] std::uint32_t links() const;
  /// With what degradation has left of its bandwidth.
  [[nodiscard]] Link link(LinkId) const;
  /// "node 3: gpu0 -> nvswitch", "node 3 nic 1 -> leaf 5".
  [[nodiscard]] std::string name(LinkId) const;
  /// Appends the links from one GPU to another; no link twice.
  void route(std::uint32_t from, std::uint32_t to, PathRule, std::uint64_t seed, std::vector<LinkId>& into) const;
  /// Sum over a route.
  [[nodiscard]] Seconds latency(std::span<const LinkId>) const;

 private:
  friend std::string dot_of(const Fabric&, const std::vector<double>& load);
  [[nodiscard]] std::uint32_t network_end(std::uint32_t node, std::uint32_t nic) const;
  [[nodiscard]] std::string network_vertex(std::uint32_t v) const;

  FabricSpec spec_;
  std::shared_ptr<const Topology> node_;     ///< none: the one GPU is its own NIC
  std::shared_ptr<const Topology> network_;  ///< none: one node
  std::uint32_t node_links_ = 0;             ///< of all nodes
  std::uint32_t rail_group_ = 0;             ///< nodes that share leaves by NIC number; 0: none do
};

/// The whole fabric for Graphviz, each cable once; coloured and labelled by the share of time that its busier direction
/// is full, where `load` has one for every link (from 0 to 1).
[[nodiscard]] std::string dot_of(const Fabric&, const std::vector<double>& load = {});

}  // namespace orrery
