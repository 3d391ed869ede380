#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sim/net/topology.hpp"

namespace orrery {

inline constexpr std::uint32_t max_fabric_gpus = 1U << 20;

/// A box: GPUs, network ports (NICs) and what joins them. With n NICs and m GPUs, GPU g uses NIC number g n / m.
struct NodeWiring {
  std::uint32_t gpus = 1, nics = 1;
  std::vector<std::string> vertices;  ///< GPUs, NICs, then switches and hosts; none: the one GPU is its own NIC
  std::vector<Wire> wires;
  bool nvls = false;  ///< the NVLink switch that joins all GPUs adds what they send, and copies the sum
  friend bool operator==(const NodeWiring&, const NodeWiring&) = default;
};

/// Levels of switches; with `rails`, NICs of one number in the nodes of a group
/// share a leaf, instead of the NICs of neighbouring nodes.
struct TreeNetwork {
  std::vector<TreeLevel> levels;
  bool rails = false;
  bool sharp = false;  ///< switches add what comes from below, and copy what comes from above
  friend bool operator==(const TreeNetwork&, const TreeNetwork&) = default;
};
struct TorusNetwork {
  std::vector<std::uint32_t> sizes;
  Link link;
  friend bool operator==(const TorusNetwork&, const TorusNetwork&) = default;
};
struct ProductNetwork {
  std::vector<ProductDimension> dimensions;
  friend bool operator==(const ProductNetwork&, const ProductNetwork&) = default;
};
struct WiredNetwork {
  std::vector<std::string> vertices;  ///< NICs, then switches
  std::vector<Wire> wires;
  friend bool operator==(const WiredNetwork&, const WiredNetwork&) = default;
};
/// monostate: a single node has no network.
using NetworkShape = std::variant<std::monostate, TreeNetwork, TorusNetwork, Dragonfly, ProductNetwork, WiredNetwork>;

/// Links that give less than they should: each with probability `share`, by seed.
struct Degraded {
  double share = 0.0;   ///< of the links
  double factor = 1.0;  ///< of their bandwidth that is left, above 0
  std::uint64_t seed = 0;
  friend bool operator==(const Degraded&, const Degraded&) = default;
};

/// A link that gives less than it should, or nothing.
struct LinkFault {
  /// One of three: "leaf 3 -> spine 1" is one direction of a cable, by the name that it is shown by; "leaf 3 -- spine
  /// 1" is both; "leaf 3" is every link of a switch, a NIC or a GPU ("node 0: gpu3").
  std::string link;
  double left = 0.0;  ///< part of its bandwidth, from 0 to 1; 0: it has failed
  friend bool operator==(const LinkFault&, const LinkFault&) = default;
};

/// Nodes with wider, narrower or fewer links than the others: their share of the bandwidth of each kind of link, in the
/// order of LinkKind. `network` is the share of their NICs' cables.
struct OtherWiring {
  std::uint32_t first = 0, count = 1;
  std::array<double, link_kinds> share{1.0, 1.0, 1.0, 1.0};
  friend bool operator==(const OtherWiring&, const OtherWiring&) = default;
};

/// What joins the GPUs of a cluster: nodes, equal except for the widths of `other_nodes`, and a network between their
/// NICs.
struct FabricSpec {
  std::string name, source;
  std::uint32_t nodes = 1;
  NodeWiring node;
  NetworkShape network;
  std::vector<OtherWiring> other_nodes;  ///< ascending, disjoint
  Degraded degraded;
  std::vector<LinkFault> faults;  ///< each names a link (Fabric::links_named)

  [[nodiscard]] std::uint64_t gpus() const { return std::uint64_t{nodes} * node.gpus; }
  [[nodiscard]] std::uint64_t nics() const { return std::uint64_t{nodes} * node.nics; }
  friend bool operator==(const FabricSpec&, const FabricSpec&) = default;
};

/// Reads a fabric file (docs/network.md); empty after a mistake, which is in the diagnostics.
[[nodiscard]] std::optional<FabricSpec> parse_fabric(std::string text, std::string file, Diagnostics&);

/// The file's text, from which parse_fabric reads a spec of the same links back. GPUs and NICs keep their numbers;
/// nodes are written as wires, and names follow in the order of the wires. Each line of `comments` stands above it.
[[nodiscard]] std::string write_fabric(const FabricSpec&, const std::vector<std::string>& comments = {});

}  // namespace orrery
