#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/units.hpp"
#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/collective_cost.hpp"
#include "sim/cost/group_shape.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/cost/mixed_collective_cost.hpp"

namespace orrery {

/// Simulated time: a whole number of picoseconds.
using Picoseconds = std::int64_t;
[[nodiscard]] Picoseconds picoseconds(Seconds);

/// Set where a node has more ranks than cores, so that ranks take turns.
struct CoreSharing {
  std::uint32_t cores = 0;           ///< of one node
  std::uint32_t ranks_per_node = 0;  ///< on the fullest node
  friend bool operator==(const CoreSharing&, const CoreSharing&) = default;
};

/// Stands for nodes of several kinds: the fastest at the priced op counts, so no rank takes less.
inline constexpr std::uint32_t any_kind = UINT32_MAX;

/// How pairs of ranks reach each other: the level, and the kinds of nodes at the two ends.
struct PairWay {
  std::size_t level = 0;
  NodeKinds kinds = 0;  ///< 0: of equal nodes
  friend bool operator==(const PairWay&, const PairWay&) = default;
};

/// The cost of every op of a Program on one cluster, without contention.
///
/// estimate and simulate price ops only through this class, so an uncontended op costs the same in both, to the
/// picosecond. Every answer is the time of the op on a core and a network of its own (with the busy slowdown of the
/// calibration when several ranks share a node's memory). Sharing of cores or links over time is simulated, not priced.
///
/// Where nodes are of several kinds, a rank computes and copies at the pace of its own device. A collective or a
/// message goes at the pace of the slowest participant (MixedCollectiveCost). An answer without a kind is a lower bound
/// over all kinds.
///
/// Where `why` is given, it gets the way to the price, with the numbers that made it. The class keeps references to
/// nothing: it is safe to copy and to share between threads.
class CostModel {
 public:
  /// `placement[rank]` is the device; empty: rank i on device i.
  /// `algorithm` overrides the choice of the cheapest collective algorithm.
  CostModel(const ClusterSpec&, const Calibration&, const Mesh&, std::vector<std::uint32_t> placement = {},
            std::optional<CollectiveAlgorithm> algorithm = std::nullopt);

  /// Makes the costs of another mesh of as many ranks on the same devices, rank i on device i. Both share the knowledge
  /// of the devices.
  CostModel(const CostModel&, const Mesh&);
  /// Price of a Compute op.
  [[nodiscard]] Seconds compute(const Program&, const Block&, const Op&, Derivation* why = nullptr,
                                std::uint32_t kind = any_kind) const;
  /// Price of a kernel that reads and writes `touched` bytes.
  [[nodiscard]] Seconds kernel(const Kernel&, Bytes touched, Derivation* why = nullptr,
                               std::uint32_t kind = any_kind) const;
  /// Share of a Collective's bytes that are sent: below 1 for weights in fewer bits than the Program's.
  [[nodiscard]] double sent_share(const Op&) const;
  /// Price of a Collective op: that of the slowest of all groups of its kind, where node boundaries make them differ.
  /// With a `kind` it is the price for ranks on such nodes: the slowest of the groups that reach these nodes, or reach
  /// others of which one does, and so on.
  [[nodiscard]] Seconds collective(const Program&, const Block&, const Op&, Derivation* why = nullptr,
                                   std::uint32_t kind = any_kind) const;
  [[nodiscard]] Seconds collective(Collective::Kind, Bytes payload, const Group&, Derivation* why = nullptr) const;
  /// The same in narrow rings of `width` ranks of the group (Collective::width), each of them by itself; 0: the whole
  /// group.
  [[nodiscard]] Seconds collective(Collective::Kind, Bytes payload, const Group&, std::uint32_t width,
                                   Derivation* why = nullptr, std::uint32_t kind = any_kind) const;
  /// Price of an all-to-all of tokens and experts over a whole group (CollectiveCost::exchange): the slowest of all
  /// groups of its kind. Where nodes are of several kinds each choice is a message of its own.
  [[nodiscard]] Seconds exchange(Bytes payload, const Group&, const TokenChoices&, std::uint32_t kind = any_kind,
                                 Derivation* why = nullptr) const;
  /// The same for one shape of group, on nodes of one kind.
  [[nodiscard]] Seconds exchange(Bytes payload, const GroupShape&, const TokenChoices&) const;
  /// The choice that `collective` makes for one shape.
  [[nodiscard]] CollectiveCost::Choice choice(Collective::Kind, Bytes payload, const GroupShape&) const;
  /// One message of an Exchange between two ranks.
  [[nodiscard]] Seconds transfer(Bytes, Rank from, Rank to) const;
  /// The levels of the network, bit l for level l, over which certain pairs of ranks talk. The pairs lie to each other
  /// as `from` and `to` do, two ranks that differ only along `axes`: every pair counts that keeps the coordinates of
  /// both on `axes`. Node boundaries and placements may cut some pairs and not others. Looks at one pair where all
  /// pairs lie alike (is_aligned, one axis), otherwise at each.
  [[nodiscard]] std::uint32_t pair_levels(const AxisList& axes, Rank from, Rank to) const;
  /// One message over the slowest of these levels.
  [[nodiscard]] Seconds transfer(Bytes, std::uint32_t levels, Derivation* why = nullptr) const;
  /// The same with the nodes of those pairs, which `transfer` below needs where nodes are of several kinds.
  [[nodiscard]] std::vector<PairWay> pair_ways(const AxisList& axes, Rank from, Rank to) const;
  [[nodiscard]] Seconds transfer(Bytes, const std::vector<PairWay>&, Derivation* why = nullptr) const;
  /// The same, for a transfer of `op` (an Exchange) issued by `rank`, its sender or receiver.
  [[nodiscard]] Seconds transfer(const Program&, const Block&, const Op&, const Transfer&, Rank rank) const;
  /// Price of a Copy between memory tiers: its bytes at the tier's rate, after the latency of a disk.
  [[nodiscard]] Seconds copy(const Program&, const Block&, const Op&, Derivation* why = nullptr,
                             std::uint32_t kind = any_kind) const;
  /// Part of the host memory's bandwidth for a kernel on the host: an equal share for each rank on the fullest node.
  [[nodiscard]] Bandwidth host_rate(std::uint32_t kind = any_kind) const;
  /// Rate of copies in one direction. Between device and host it is the least of what the calibration measured, the
  /// cluster's host link and host_rate. For a disk it is a rank's share of its reading or writing, as the calibration
  /// measured or the cluster states.
  [[nodiscard]] Bandwidth tier_rate(Tier from, Tier to, std::uint32_t kind = any_kind) const;

  /// Price of any op that `rank` issues: an Exchange costs its slowest message, Alloc and Free cost nothing.
  [[nodiscard]] Picoseconds price(const Program&, const Block&, const Op&, Rank rank) const;

  /// Set when the device's ranks share cores (CPU ranks) and a node holds more ranks than cores.
  [[nodiscard]] std::optional<CoreSharing> core_sharing() const { return sharing_; }
  /// Time that compute loses for each second of collectives beside it (SoftwareCost::overlap).
  [[nodiscard]] double overlap_loss() const { return devices_->overlap_loss; }
  /// Seconds of the host for each kernel or collective (SoftwareCost::host_launch).
  [[nodiscard]] double host_launch() const { return devices_->host_launch; }
  /// Factor for the bytes of gathered weights (SoftwareCost::weights_gather).
  [[nodiscard]] double weights_gather() const { return devices_->weights_gather; }
  /// Factor for collectives over these axes (SoftwareCost::tensor).
  [[nodiscard]] double collective_factor(const AxisList& axes) const {
    return axes.count == 1 && axes.axis[0] == Axis::tensor ? devices_->tensor_factor : 1.0;
  }
  [[nodiscard]] const ClusterSpec& cluster() const { return devices_->cluster; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const MixedCollectiveCost& collectives() const { return devices_->collectives; }
  [[nodiscard]] std::uint32_t kinds() const { return static_cast<std::uint32_t>(devices_->kernels.size()); }
  /// The kind of the node that a rank is on.
  [[nodiscard]] std::uint32_t kind_of(Rank rank) const { return kind_of_device(devices_->cluster, device_of(rank)); }

 private:
  [[nodiscard]] Seconds collective(Collective::Kind, Bytes payload, const Group&, std::uint32_t kind,
                                   const std::vector<GroupShape>& pace, Derivation* why) const;
  [[nodiscard]] Seconds slowest(Collective::Kind, Bytes payload, const std::vector<GroupShape>&, std::uint32_t kind,
                                const std::vector<GroupShape>& pace, Derivation* why) const;
  [[nodiscard]] std::vector<GroupShape> shapes_of(const Group&) const;
  [[nodiscard]] std::uint32_t device_of(Rank rank) const;
  template <class Look>
  void for_each_pair(const AxisList& axes, Rank from, Rank to, const Look& look) const;

  /// What all meshes of as many ranks share.
  struct Devices {
    ClusterSpec cluster;
    std::vector<KernelCost> kernels;  ///< of each kind of nodes
    MixedCollectiveCost collectives;
    std::vector<std::optional<Bandwidth>> host_bandwidth;  ///< of each kind
    bool disk_measured = false;                            ///< the cluster's disk has the calibration's rates
    double overlap_loss = 0.0;
    double tensor_factor = 1.0;  ///< of collectives along the tensor axis
    double host_launch = 0.0;    ///< s
    double weights_gather = 1.0;
  };
  static std::shared_ptr<const Devices> devices_with(const ClusterSpec&, const Calibration&,
                                                     std::uint32_t ranks_on_node);
  void lay_axes();

  Mesh mesh_;
  std::vector<std::uint32_t> placement_;
  std::optional<CollectiveAlgorithm> override_;
  std::uint32_t ranks_on_node_ = 1;
  std::shared_ptr<const Devices> devices_;
  std::optional<CoreSharing> sharing_;
  bool aligned_ = false;  ///< rank i on device i, and is_aligned
  /// The bit of each axis in `axis_shapes_`; axes of size 1 change no group and have none.
  std::array<std::uint16_t, axis_count> axis_bit_{};
  /// Shapes of the groups over each subset of axes (no member list), computed once.
  std::vector<std::vector<GroupShape>> axis_shapes_;
};

/// The assumption about nodes of several kinds, in words.
[[nodiscard]] std::string pace_of_kinds(const CostModel&);

/// The assumption about devices that compute and communicate at once, in words.
[[nodiscard]] std::string communication_beside_compute(const CostModel&);

}  // namespace orrery
