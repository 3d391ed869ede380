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

/// More ranks on a node than cores: they take turns.
struct CoreSharing {
  std::uint32_t cores = 0;           ///< of one node
  std::uint32_t ranks_per_node = 0;  ///< on the fullest node
  friend bool operator==(const CoreSharing&, const CoreSharing&) = default;
};

/// Of nodes of several kinds: whichever is the fastest at what is priced, so that no rank takes less.
inline constexpr std::uint32_t any_kind = UINT32_MAX;

/// How pairs of ranks reach each other: over which level, between nodes of which kinds.
struct PairWay {
  std::size_t level = 0;
  NodeKinds kinds = 0;  ///< 0: of equal nodes
  friend bool operator==(const PairWay&, const PairWay&) = default;
};

/// What every op of a Program costs on one cluster, without contention.
///
/// estimate and simulate price ops through this class only, so an uncontended
/// op costs both the same, to the picosecond.  Every answer is the time of the
/// op on a core and a network of its own (with the busy slowdown of the
/// calibration when several ranks share a node's memory); who shares cores or
/// links in time is simulated, not priced.
///
/// Where nodes are of several kinds, a rank computes and copies at the pace of its own device, and a collective or a
/// message goes at that of the slowest who take part (MixedCollectiveCost).  What is asked without a kind is a lower
/// bound over all kinds.
///
/// `why`, where it is given, is told how the price came about, with the numbers that made it.
/// Keeps references to nothing: safe to copy and to share between threads.
class CostModel {
 public:
  /// `placement[rank]` is the device; empty: rank i on device i.
  /// `algorithm` overrides the choice of the cheapest collective algorithm.
  CostModel(const ClusterSpec&, const Calibration&, const Mesh&, std::vector<std::uint32_t> placement = {},
            std::optional<CollectiveAlgorithm> algorithm = std::nullopt);

  /// Of another mesh of as many ranks on the same devices, rank i on device i, with which it shares what it knows of
  /// them.
  CostModel(const CostModel&, const Mesh&);
  /// A Compute op.
  [[nodiscard]] Seconds compute(const Program&, const Block&, const Op&, Derivation* why = nullptr,
                                std::uint32_t kind = any_kind) const;
  /// A kernel that reads and writes `touched` bytes.
  [[nodiscard]] Seconds kernel(const Kernel&, Bytes touched, Derivation* why = nullptr,
                               std::uint32_t kind = any_kind) const;
  /// A Collective op: the slowest of all groups of its kind, where node boundaries make them differ.  As ranks on nodes
  /// of `kind` pay it: the slowest of the groups that reach such nodes, or reach others of which one does, and so on.
  [[nodiscard]] Seconds collective(const Program&, const Block&, const Op&, Derivation* why = nullptr,
                                   std::uint32_t kind = any_kind) const;
  [[nodiscard]] Seconds collective(Collective::Kind, Bytes payload, const Group&, Derivation* why = nullptr) const;
  /// The same in narrow rings of `width` ranks of the group (Collective::width), each of them for itself; 0: the whole.
  [[nodiscard]] Seconds collective(Collective::Kind, Bytes payload, const Group&, std::uint32_t width,
                                   Derivation* why = nullptr, std::uint32_t kind = any_kind) const;
  /// What `collective` assumes for one shape.
  [[nodiscard]] CollectiveCost::Choice choice(Collective::Kind, Bytes payload, const GroupShape&) const;
  /// One message of an Exchange between two ranks.
  [[nodiscard]] Seconds transfer(Bytes, Rank from, Rank to) const;
  /// The levels of the network, bit l for level l, over which pairs of ranks
  /// talk that lie to each other as `from` and `to`, two ranks that differ along
  /// `axes` only: every pair that both keep their coordinates on `axes`.  Node
  /// boundaries and placements may cut some pairs and not others.
  /// Looks at one pair where all lie alike (is_aligned, one axis), else at each.
  [[nodiscard]] std::uint32_t pair_levels(const AxisList& axes, Rank from, Rank to) const;
  /// One message over the slowest of these levels.
  [[nodiscard]] Seconds transfer(Bytes, std::uint32_t levels, Derivation* why = nullptr) const;
  /// The same with the nodes of those pairs: what `transfer` below needs where they are of several kinds.
  [[nodiscard]] std::vector<PairWay> pair_ways(const AxisList& axes, Rank from, Rank to) const;
  [[nodiscard]] Seconds transfer(Bytes, const std::vector<PairWay>&, Derivation* why = nullptr) const;
  /// The same, for a transfer of `op` (an Exchange) issued by `rank`, its sender or receiver.
  [[nodiscard]] Seconds transfer(const Program&, const Block&, const Op&, const Transfer&, Rank rank) const;
  /// A Copy between memory tiers: its bytes at the tier's rate, behind the latency of a disk.
  [[nodiscard]] Seconds copy(const Program&, const Block&, const Op&, Derivation* why = nullptr,
                             std::uint32_t kind = any_kind) const;
  /// What a kernel on the host has of the host memory's bandwidth: an equal share of each rank on the fullest node.
  [[nodiscard]] Bandwidth host_rate(std::uint32_t kind = any_kind) const;
  /// Of copies in one direction.  Device and host: the least of what the calibration measured, the cluster's host link
  /// and host_rate; disk: a rank's share of its reading or writing, as the calibration measured or the cluster has it.
  [[nodiscard]] Bandwidth tier_rate(Tier from, Tier to, std::uint32_t kind = any_kind) const;

  /// Any op as issued by `rank`: an Exchange costs its slowest message, Alloc
  /// and Free nothing.
  [[nodiscard]] Picoseconds price(const Program&, const Block&, const Op&, Rank rank) const;

  /// Set when the device's ranks share cores (CPU ranks) and a node holds more ranks than cores.
  [[nodiscard]] std::optional<CoreSharing> core_sharing() const { return sharing_; }
  /// Time that compute loses for each second of collectives beside it (SoftwareCost::overlap).
  [[nodiscard]] double overlap_loss() const { return devices_->overlap_loss; }
  /// Of collectives over these axes (SoftwareCost::tensor).
  [[nodiscard]] double collective_factor(const AxisList& axes) const {
    return axes.count == 1 && axes.axis[0] == Axis::tensor ? devices_->tensor_factor : 1.0;
  }
  [[nodiscard]] const ClusterSpec& cluster() const { return devices_->cluster; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const MixedCollectiveCost& collectives() const { return devices_->collectives; }
  [[nodiscard]] std::uint32_t kinds() const { return static_cast<std::uint32_t>(devices_->kernels.size()); }
  /// Of the node that a rank is on.
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
  /// Bit of each axis in `axis_shapes_`; axes of size 1 change no group and have none.
  std::array<std::uint16_t, axis_count> axis_bit_{};
  /// Shapes of the groups over each subset of axes (no member list), computed once.
  std::vector<std::vector<GroupShape>> axis_shapes_;
};

/// What is assumed of nodes of several kinds, in words.
[[nodiscard]] std::string pace_of_kinds(const CostModel&);

/// What is assumed of devices that compute and communicate at once, in words.
[[nodiscard]] std::string communication_beside_compute(const CostModel&);

}  // namespace orrery
