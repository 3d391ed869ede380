#include "sim/cost/group_shape.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

GroupShape group_shape(std::span<const std::uint32_t> devices, const ClusterSpec& cluster) {
  ORRERY_ASSERT(!devices.empty());
  ORRERY_ASSERT(cluster.levels.size() <= GroupShape::max_levels, cluster.levels.size());
  GroupShape shape;
  shape.members = static_cast<std::uint32_t>(devices.size());
  if (is_mixed(cluster)) {
    for (const std::uint32_t d : devices) shape.kinds |= static_cast<NodeKinds>(1U << kind_of_device(cluster, d));
  }
  if (shape.members == 1) return shape;
  std::vector<std::uint32_t> unit(devices.begin(), devices.end());
  std::sort(unit.begin(), unit.end());
  for (const NetworkLevel& level : cluster.levels) {
    // Device numbers are node-major, so a unit is a range of device numbers.
    GroupShape::Level at{0, shape.members};
    for (std::uint32_t& u : unit) u /= level.size;
    std::uint32_t run = 0;
    for (std::size_t i = 0; i < unit.size(); ++i) {
      ++run;
      if (i + 1 == unit.size() || unit[i + 1] != unit[i]) {
        ++at.units;
        at.least = std::min(at.least, run);
        run = 0;
      }
    }
    shape.level[shape.levels++] = at;
    if (at.units == 1) break;
  }
  ORRERY_ASSERT(shape.levels > 0 && shape.level[shape.levels - 1U].units == 1, shape.levels, shape.members);
  return shape;
}

namespace {

/// Members of a group along one axis that share a unit of `unit` devices, when that number is the same wherever the
/// group lies; 0 when it is not. `ranks` counts all ranks of the mesh: a unit that holds them all holds every group.
std::uint64_t aligned_members(std::uint64_t unit, std::uint64_t stride, std::uint64_t size, std::uint64_t ranks) {
  if (unit >= ranks) return size;
  if (unit <= stride) return stride % unit == 0 ? 1 : 0;
  if (unit >= stride * size) return unit % (stride * size) == 0 ? size : 0;
  return unit % stride == 0 && size % (unit / stride) == 0 ? unit / stride : 0;
}

}  // namespace

bool is_aligned(const Mesh& mesh, const ClusterSpec& cluster) {
  if (is_mixed(cluster)) return false;
  std::uint64_t unit = 1;
  for (const NetworkLevel& level : cluster.levels) {
    unit *= level.size;
    std::uint64_t stride = 1;
    for (std::size_t i = mesh.axes.size(); i-- > 0; stride *= mesh.axes[i].size) {
      if (aligned_members(unit, stride, mesh.axes[i].size, mesh.size()) == 0) return false;
    }
  }
  return true;
}

std::vector<std::uint32_t> axis_layout(const Mesh& mesh, Axis axis, const ClusterSpec& cluster) {
  std::vector<std::uint32_t> lies;
  std::uint64_t unit = 1;
  for (const NetworkLevel& level : cluster.levels) {
    unit *= level.size;
    lies.push_back(static_cast<std::uint32_t>(aligned_members(unit, mesh.stride(axis), mesh.size(axis), mesh.size())));
  }
  return lies;
}

GroupShape aligned_shape(const AxisList& axes, const Mesh& mesh, const ClusterSpec& cluster) {
  GroupShape shape;
  shape.members = static_cast<std::uint32_t>(size(mesh, axes));
  if (shape.members == 1) return shape;
  std::uint64_t unit = 1;
  for (const NetworkLevel& level : cluster.levels) {
    unit *= level.size;
    std::uint64_t inside = 1;
    std::uint64_t stride = 1;
    for (std::size_t i = mesh.axes.size(); i-- > 0; stride *= mesh.axes[i].size) {
      const MeshAxis& along = mesh.axes[i];
      if (std::find(axes.begin(), axes.end(), along.axis) == axes.end()) continue;
      inside *= aligned_members(unit, stride, along.size, mesh.size());
    }
    const auto least = static_cast<std::uint32_t>(inside);
    shape.level[shape.levels++] = {shape.members / least, least};
    if (least == shape.members) break;
  }
  ORRERY_ASSERT(shape.levels > 0 && shape.level[shape.levels - 1U].units == 1, shape.levels, shape.members);
  return shape;
}

std::vector<GroupShape> group_shapes(const Group& group, const Mesh& mesh, std::span<const std::uint32_t> placement,
                                     const ClusterSpec& cluster) {
  const bool aligned = placement.empty() && is_aligned(mesh, cluster);
  if (aligned && group.members.empty()) return {aligned_shape(group.axes, mesh, cluster)};
  std::vector<GroupShape> shapes;
  const auto ranks = static_cast<std::uint32_t>(mesh.size());
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (coordinate(mesh, Rank{r}, group.axes) != 0) continue;  // one look per group
    std::vector<std::uint32_t> devices;
    for (const Rank member : group_ranks(group, mesh, Rank{r})) {
      devices.push_back(placement.empty() ? index(member) : placement[index(member)]);
    }
    const GroupShape shape = group_shape(devices, cluster);
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
    if (aligned) break;  // all groups lie alike
  }
  return shapes;
}

std::size_t level_between(std::uint32_t a, std::uint32_t b, const ClusterSpec& cluster) {
  ORRERY_ASSERT(a != b, a, b);
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    a /= cluster.levels[l].size;
    b /= cluster.levels[l].size;
    if (a == b) return l;
  }
  ORRERY_ASSERT(false, a, b);
  return 0;
}

}  // namespace orrery
