#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/trace.hpp"
#include "gui/model/cell_table.hpp"
#include "gui/model/tables.hpp"
#include "gui/model/timeline.hpp"
#include "sim/des/fabric_traffic.hpp"
#include "sim/des/shared_network.hpp"

// The fabric as it is drawn: devices are at the bottom, switches above, in as many cells as can be told apart.

namespace orrery::gui {

/// Most cells of one level; where a level has more vertices, neighbours share a cell.
inline constexpr std::uint32_t most_cells_of_level = 64;

/// One vertex of the fabric, or neighbours of one level that are drawn as one.
struct FabricCell {
  std::string name;                    ///< "node 3: gpu0", or the first and the last of several
  std::uint32_t vertices = 0;          ///< in it
  std::vector<std::uint32_t> devices;  ///< of the lowest level: GPUs of the fabric, ascending
};
/// The links between two cells; the busiest direction of the busiest link counts.
struct FabricEdge {
  std::uint32_t low_level = 0, low = 0, high_level = 0, high = 0;  ///< cells
  std::uint32_t links = 0;                                         ///< directions of cables
  double load = 0.0;                                               ///< share of its bandwidth that is used
  std::optional<LinkId> busiest;
};
/// A link and its load.
struct HotLink {
  LinkId link{};
  std::string name;
  double bytes = 0.0, load = 0.0;
};
struct FabricPicture {
  std::string name;
  std::vector<std::string> kinds;               ///< [level]: what its vertices are called, without numbers: "gpu"
  std::vector<std::vector<FabricCell>> levels;  ///< devices first
  std::vector<FabricEdge> edges;
  std::vector<std::uint32_t> edge_of_link;  ///< [link]
  std::vector<HotLink> hottest;             ///< the busiest first, at most most_hot_links
  double seconds = 0.0;                     ///< over which loads are counted
};
inline constexpr std::size_t most_hot_links = 50;

/// Vertices of one level have the same number of links to the nearest device, and are of one kind.
[[nodiscard]] FabricPicture make_picture(const Fabric&);
/// Sets the loads, which are bytes over bandwidth, over `seconds`.
void set_loads(FabricPicture&, const Fabric&, const std::vector<LinkLoad>&, double seconds);
/// The hottest links.  Ids are links.
[[nodiscard]] TableContent hot_links_table(const FabricPicture&);

/// Bytes that ranks send each other within a range of a traced step, with one rank of each class traced. A
/// communication that lies only partly in the range counts in proportion. Over the whole step the result is that of
/// StepTraffic.
[[nodiscard]] std::vector<GpuTraffic> traffic_within(const Program&, const Trace&, TimeRange, const FabricTraffic&);

}  // namespace orrery::gui
