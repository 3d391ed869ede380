#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sim/net/detour.hpp"
#include "sim/net/fabric_spec.hpp"

namespace orrery {

/// Says which way a message goes where there are several.
enum class PathRule : std::uint8_t {
  by_destination,  ///< D-mod-k: the destination's number decides
  hashed,          ///< ECMP: a hash of source, destination and seed decides
  rail_local       ///< by destination; leaves the node by the NIC with the number of the destination's, reached over
                   ///< NVLink
};

/// Thrown for two GPUs between which every way crosses a link that has failed.
class CutOff : public Error {
 public:
  CutOff(std::uint32_t from, std::uint32_t to, const std::string& what) : Error(what), from_gpu(from), to_gpu(to) {}
  std::uint32_t from_gpu, to_gpu;
};

/// The links between the GPUs of a cluster.
///
/// One node's wiring stands for all nodes, and the network between them computes its routes: 131,072 GPUs take no more
/// memory than eight. Links are numbered node by node, then come the network's. GPU g of node n is n * gpus + g.
class Fabric {
 public:
  /// Requires that every fault names a link (links_named() is not empty for a fabric without the faults).
  explicit Fabric(FabricSpec);

  [[nodiscard]] const FabricSpec& spec() const { return spec_; }
  [[nodiscard]] std::uint32_t gpus() const { return static_cast<std::uint32_t>(spec_.gpus()); }
  [[nodiscard]] std::uint32_t links() const;
  /// The link with the bandwidth that degradation and faults have left; zero where it has failed.
  [[nodiscard]] Link link(LinkId) const;
  /// "node 3: gpu0 -> nvswitch", "node 3 nic 1 -> leaf 5".
  [[nodiscard]] std::string name(LinkId) const;
  /// The links of that name, as LinkFault has it.
  [[nodiscard]] std::vector<LinkId> links_named(const std::string&) const;
  /// Appends the links from one GPU to another, no link twice.
  ///
  /// Where the usual way crosses a link that has failed, it takes the shortest way that is left between the same NICs,
  /// otherwise one by another NIC of either node, near ones first. Inside a node, where nothing is left there, it goes
  /// out and back by two NICs. Throws CutOff where no way is left.
  void route(std::uint32_t from, std::uint32_t to, PathRule, std::uint64_t seed, std::vector<LinkId>& into) const;
  /// Whether the NVLink switch of a node adds and copies what it passes on; whether the network's switches do. False
  /// where a link of theirs has failed, because their sums know no way around.
  [[nodiscard]] bool nvls() const { return !nvlink_cables_.empty() && node_detour_ == nullptr; }
  [[nodiscard]] bool sharp() const;
  /// Appends the links over which a node's NVLink switch reads the data of `gpus` in that node and gives the sum to
  /// `root`, one of them. Requires nvls().
  void nvls_sum(std::span<const std::uint32_t> gpus, std::uint32_t root, std::vector<LinkId>& into) const;
  /// The same links the other way: over them the switch gives all of `gpus` what `root` sends.
  void nvls_copy(std::span<const std::uint32_t> gpus, std::uint32_t root, std::vector<LinkId>& into) const;
  /// Appends the links, each once, over which the network's switches add the data that `gpus` send and copy the sum
  /// back to all. These are both directions of the tree by which messages reach the first of them. Requires sharp(),
  /// and at least two GPUs, each on a node of its own.
  void sharp_all_reduce(std::span<const std::uint32_t> gpus, std::vector<LinkId>& into) const;
  /// The sum over a route.
  [[nodiscard]] Seconds latency(std::span<const LinkId>) const;

 private:
  struct Way;
  /// The names of a link's two ends, such as "node 3: gpu0" and "node 3: nvswitch".
  [[nodiscard]] std::pair<std::string, std::string> side_names(LinkId) const;
  [[nodiscard]] bool has_failed(LinkId) const;
  /// The share of a link's bandwidth on nodes that differ from most; for a link between two nodes, the smaller share.
  [[nodiscard]] double share_of(std::uint32_t link, LinkKind) const;
  void usual_route(std::uint32_t from, std::uint32_t to, PathRule, std::uint64_t seed, std::vector<LinkId>& into) const;
  [[nodiscard]] bool way_inside(std::uint32_t node, std::uint32_t from, std::uint32_t to, const PathChoice&,
                                std::vector<LinkId>& into) const;
  [[nodiscard]] bool detour(std::uint32_t from, std::uint32_t to, const PathChoice&, std::vector<LinkId>& into) const;
  friend std::string dot_of(const Fabric&, const std::vector<double>& load);
  [[nodiscard]] std::uint32_t network_end(std::uint32_t node, std::uint32_t nic) const;
  [[nodiscard]] std::string network_vertex(std::uint32_t v) const;

  FabricSpec spec_;
  std::shared_ptr<const Topology> node_;                    ///< none: the one GPU is its own NIC
  std::shared_ptr<const Topology> network_;                 ///< none: one node
  std::uint32_t node_links_ = 0;                            ///< of all nodes
  std::uint32_t rail_group_ = 0;                            ///< number of nodes that share leaves by NIC number; 0:
                                                            ///< none do
  std::unordered_map<std::uint32_t, double> left_;          ///< of links with faults
  std::shared_ptr<const Detour> node_detour_, net_detour_;  ///< where links have failed
  std::vector<std::uint32_t> nvlink_cables_;  ///< cables from a node's GPUs to the switch that adds; empty: no switch
                                              ///< does
};

/// The message for a fault that names no link: what is wrong, and how links of that fabric are named.
[[nodiscard]] std::string unknown_link(const std::string& name);
[[nodiscard]] std::vector<std::string> links_like(const Fabric&, const std::string& name);

/// The whole fabric for Graphviz, each cable once. Where `load` has a value from 0 to 1 for every link, cables are
/// coloured and labelled by the share of time that their busier direction is full.
[[nodiscard]] std::string dot_of(const Fabric&, const std::vector<double>& load = {});

}  // namespace orrery
