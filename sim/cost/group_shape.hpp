#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.hpp"
#include "core/plan/mesh.hpp"
#include "core/program/program.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/node_kinds.hpp"

namespace orrery {

/// How a communication group lies on the levels of a cluster: all that the
/// cost of a collective needs to know about its members.
///
/// level[l].units   units of level l that hold at least one member
/// level[l].least   fewest members in one of those units
/// The outermost level that the group needs has one unit; further ones are
/// not listed.  A group of one member has no levels.
struct GroupShape {
  static constexpr std::size_t max_levels = 6;
  struct Level {
    std::uint32_t units = 1;
    std::uint32_t least = 1;
    friend bool operator==(const Level&, const Level&) = default;
  };
  std::uint32_t members = 1;
  std::uint8_t levels = 0;
  std::array<Level, max_levels> level{};
  NodeKinds kinds = 0;  ///< kinds of the members' nodes; 0: nodes are equal, or any kind counts, the fastest then
  friend bool operator==(const GroupShape&, const GroupShape&) = default;
};

/// Shape of the group whose members run on `devices` (node-major numbers).
/// Requires at least one device, all distinct and below cluster.devices().
[[nodiscard]] GroupShape group_shape(std::span<const std::uint32_t> devices, const ClusterSpec&);

/// Shape of a whole group (no member list), found without listing its ranks. Requires that is_aligned holds and rank i
/// is on device i.
[[nodiscard]] GroupShape aligned_shape(const AxisList& axes, const Mesh&, const ClusterSpec&);

/// Distinct shapes over all groups of this kind, in order of their first rank.
/// One shape when the levels' sizes fit the mesh strides; several when node
/// boundaries cut the groups differently.  `placement[rank]` is the device;
/// empty: rank i on device i.
[[nodiscard]] std::vector<GroupShape> group_shapes(const Group&, const Mesh&, std::span<const std::uint32_t> placement,
                                                   const ClusterSpec&);

/// Whether every unit boundary of the cluster cuts all groups along each axis of the mesh alike (rank i on device i),
/// and all nodes are alike. Then two ranks that differ along one axis only reach each other over a level that follows
/// from their coordinates on that axis, whatever their other coordinates.
[[nodiscard]] bool is_aligned(const Mesh&, const ClusterSpec&);

/// How an axis of an aligned mesh lies on the cluster: how many of its members share a unit of each level, innermost
/// first.  The shape of a group over some axes follows from how each of them lies.
[[nodiscard]] std::vector<std::uint32_t> axis_layout(const Mesh&, Axis, const ClusterSpec&);

/// The level over which two devices reach each other (index into
/// ClusterSpec::levels).  Requires two different devices of the cluster.
[[nodiscard]] std::size_t level_between(std::uint32_t a, std::uint32_t b, const ClusterSpec&);

}  // namespace orrery
