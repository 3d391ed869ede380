#include "sim/cost/nccl/nccl_graph.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/diagnostics.hpp"
#include "sim/cost/nccl/nccl_tables.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t most_channels = 16;
constexpr std::uint32_t most_heads = 8;

/// The first of these speeds that fits into `room`; `room` itself where it is less than all of them.
double speed(std::span<const double> tried, double room) {
  for (const double s : tried) {
    if (s <= room * (1.0 + 1e-9)) return s;
  }
  return room;
}

NcclChannels doubled(NcclChannels c, GpuGeneration generation) {
  const bool many_since_hopper = generation >= GpuGeneration::hopper && c.inside < 50.0 && c.count > 4;
  if (c.inside < 25.0 || many_since_hopper) return c;
  return {2 * c.count, 0.5 * c.inside, 0.5 * c.between};
}

}  // namespace

NcclGraphs nccl_graphs(const NcclTopology& t) {
  ORRERY_ASSERT(t.nodes >= 1 && t.per_node >= 1, t.nodes, t.per_node);
  const double links = nccl_tables::nvlink_share(t.generation) * t.nvlink.in(gigabyte_per_second);
  const auto inside = nccl_tables::speeds_inside(t.generation);
  NcclGraphs g;
  if (t.nodes == 1) {
    const double w = speed(inside, links);
    const auto count =
        static_cast<std::uint32_t>(std::clamp<double>(std::floor(links / w * (1.0 + 1e-9)), 1.0, most_channels));
    g.ring = doubled({count, w, w}, t.generation);
  } else {
    const double port = t.port.in(gigabyte_per_second);
    const std::uint32_t count = std::min(t.per_node, most_channels);
    const double ports = port * t.per_node / count;
    // A member that is alone on its node passes nothing on over NVLink.
    const double w = speed(nccl_tables::speeds_between(), t.per_node == 1 ? ports : std::min(ports, links / count));
    g.ring = doubled({count, w, w}, t.generation);
  }
  g.tree = g.ring;
  if (nccl_tables::nvls_efficiency(t.generation) > 0.0 && t.per_node > 1) {
    g.nvls.count = std::min(t.per_node, most_heads);
    g.nvls.inside = speed(inside, links / g.nvls.count);
    if (t.nodes > 1) {
      g.nvls.between = speed(nccl_tables::speeds_between(), t.port.in(gigabyte_per_second)*t.per_node / g.nvls.count);
    }
  }
  if (t.found.ring.count > 0) g.ring = g.tree = t.found.ring;
  if (t.found.tree.count > 0) g.tree = t.found.tree;
  if (t.found.nvls.count > 0) g.nvls = t.found.nvls;
  return g;
}

}  // namespace orrery
