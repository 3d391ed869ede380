#include "sim/bound/best_place.hpp"

#include <algorithm>
#include <optional>

namespace orrery {

BestPlace::BestPlace(const CostModel& costs) : costs_(costs) {}

/// Shapes of the groups over an axis at every stride that some mesh of all devices has.
const std::vector<std::vector<GroupShape>>& BestPlace::places_of(std::uint32_t size) {
  const auto [at, fresh] = places_.try_emplace(size);
  if (!fresh) return at->second;
  const std::uint64_t rest = costs_.cluster().devices() / size;
  for (std::uint64_t stride = 1; stride <= rest; ++stride) {
    if (rest % stride != 0) continue;
    Mesh mesh;
    mesh.axes = {{Axis::pipeline, static_cast<std::uint32_t>(rest / stride)},
                 {Axis::data, size},
                 {Axis::tensor, static_cast<std::uint32_t>(stride)}};
    std::vector<GroupShape> shapes = group_shapes(Group{{Axis::data}, {}}, mesh, {}, costs_.cluster());
    if (is_mixed(costs_.cluster())) {  // which of them a rank pays follows from its node: any, as on the fastest
      for (GroupShape s : shapes) {
        s.kinds = 0;
        at->second.push_back({s});
      }
      continue;
    }
    if (std::find(at->second.begin(), at->second.end(), shapes) == at->second.end()) {
      at->second.push_back(std::move(shapes));
    }
  }
  return at->second;
}

/// A collective where its axis lies best.
Picoseconds BestPlace::price(const BlockCollective& c) {
  if (c.group.axes.count != 1 || !c.group.members.empty()) return 0;
  return price(c.kind, c.payload, c.width != 0 ? c.width : c.members, costs_.collective_factor(c.group.axes));
}

Picoseconds BestPlace::price(Collective::Kind kind, Bytes payload, std::uint32_t members, double factor) {
  std::optional<Seconds> best;
  for (const std::vector<GroupShape>& shapes : places_of(members)) {
    Seconds slowest;
    for (const GroupShape& g : shapes) {
      slowest = std::max(slowest, costs_.collectives().choose(kind, payload, g, std::nullopt).time);
    }
    if (!best || slowest < *best) best = slowest;
  }
  return best ? picoseconds(factor * *best) : 0;
}

}  // namespace orrery
