#include "tests/support/random_fabric.hpp"

#include <algorithm>
#include <string>

#include "core/base/random.hpp"

namespace orrery::test {

namespace {

Link link_of(LinkKind kind, double bandwidth) { return {kind, Bandwidth::of(bandwidth), Seconds::of(1e-6)}; }

/// Adds one more level whenever the ends below do not fit, with `up` switches above each.
TreeNetwork tree(std::uint32_t ends, std::uint32_t down, std::uint32_t up, bool rails) {
  TreeNetwork out;
  out.rails = rails;
  std::uint64_t below = 1;
  while (out.levels.empty() || below < ends) {
    out.levels.push_back({down, out.levels.empty() ? 1 : up, link_of(LinkKind::network, 10e9)});
    below *= down;
  }
  return out;
}

}  // namespace

Fabric random_fabric(std::uint64_t seed, std::uint32_t nodes, std::uint32_t per_node) {
  const auto pick = [&](std::uint64_t what, std::uint32_t count) {
    return static_cast<std::uint32_t>(random_bits(seed, stream_of("random fabric"), what) % count);
  };
  FabricSpec spec;
  spec.nodes = nodes;
  spec.node.gpus = per_node;
  spec.node.nics = per_node == 1 || pick(0, 2) == 0 ? 1 : per_node;
  if (per_node > 1) {
    const std::uint32_t ends = per_node + spec.node.nics;
    for (std::uint32_t g = 0; g < per_node; ++g) spec.node.vertices.push_back("gpu" + std::to_string(g));
    for (std::uint32_t n = 0; n < spec.node.nics; ++n) spec.node.vertices.push_back("nic" + std::to_string(n));
    spec.node.vertices.push_back("switch0");
    for (std::uint32_t v = 0; v < ends; ++v) {
      spec.node.wires.push_back({v, ends, link_of(LinkKind::nvlink, v < per_node ? 100e9 : 12e9)});
    }
  }
  const auto ends = static_cast<std::uint32_t>(spec.nics());
  if (nodes > 1) {
    switch (pick(1, 5)) {
      case 0:
        spec.name = "star";
        spec.network = tree(ends, ends, 1, false);
        break;
      case 1:
        spec.name = "tree";
        spec.network = tree(ends, 2, 2, false);
        break;
      case 2:
        spec.name = "oversubscribed tree";
        spec.network = tree(ends, 4, 1 + pick(2, 2), false);
        break;
      case 3:
        spec.name = "rails";
        spec.network = tree((nodes + 1) / 2 * 2 * spec.node.nics, 2, 2, true);
        break;
      default: {
        spec.name = "torus";
        TorusNetwork torus;
        const std::uint32_t side = ends % 4 == 0 ? 4 : ends % 2 == 0 ? 2 : 1;
        torus.sizes = {ends / side, side};
        torus.link = link_of(LinkKind::network, 10e9);
        spec.network = torus;
      }
    }
  }
  spec.degraded.seed = seed;
  if (pick(3, 6) == 0) {
    spec.degraded.share = 0.2;
    spec.degraded.factor = 0.5;
  }
  return Fabric(spec);
}

}  // namespace orrery::test
