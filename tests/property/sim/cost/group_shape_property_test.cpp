#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "sim/cost/group_shape.hpp"

using namespace orrery;

namespace {

ClusterSpec random_cluster(std::mt19937_64& random) {
  const auto pick = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most) + 1; };
  ClusterSpec c;
  std::uint32_t devices = 1;
  const std::uint32_t levels = pick(3);
  for (std::uint32_t l = 0; l < levels; ++l) {
    const std::uint32_t size = pick(4) * (random() % 2 == 0 ? 1 : 2);
    c.levels.push_back({"level", size, gigabyte_per_second, microsecond});
    devices *= size;
  }
  c.devices_per_node = c.levels[0].size;
  c.nodes = devices / c.devices_per_node;
  return c;
}

/// Axes of random sizes, in random order, over at most `devices` ranks.
Mesh random_mesh(std::mt19937_64& random, std::uint64_t devices) {
  std::vector<Axis> order{Axis::pipeline, Axis::data, Axis::tensor};
  std::shuffle(order.begin(), order.end(), random);
  Mesh mesh;
  for (const Axis a : order) {
    const std::uint64_t room = devices / mesh.size();
    mesh.axes.push_back({a, static_cast<std::uint32_t>(random() % room) + 1});
  }
  return mesh;
}

}  // namespace

// group_shapes answers from strides alone where it can; listing every group's
// ranks, on an explicit placement of rank i to device i, must agree.
TEST_CASE("Shapes from strides equal shapes from lists of ranks", "[property][group-shape]") {
  const std::uint64_t seed = 20260101;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int several = 0;
  for (int i = 0; i < 2000; ++i) {
    const ClusterSpec cluster = random_cluster(random);
    const Mesh mesh = random_mesh(random, cluster.devices());
    std::vector<std::uint32_t> identity(mesh.size());
    for (std::uint32_t r = 0; r < identity.size(); ++r) identity[r] = r;
    for (const AxisList& axes :
         {AxisList{Axis::tensor}, AxisList{Axis::data}, AxisList{Axis::pipeline}, AxisList{Axis::data, Axis::tensor},
          AxisList{Axis::pipeline, Axis::tensor}, AxisList{Axis::pipeline, Axis::data, Axis::tensor}}) {
      CAPTURE(i, cluster.devices(), mesh.size());
      const auto shapes = group_shapes(Group{axes, {}}, mesh, {}, cluster);
      CHECK(shapes == group_shapes(Group{axes, {}}, mesh, identity, cluster));
      if (shapes.size() > 1) ++several;
    }
    const std::uint32_t stages = mesh.size(Axis::pipeline);
    if (stages > 1) {
      const Group ends{{Axis::pipeline}, {0, stages - 1}};
      CHECK(group_shapes(ends, mesh, {}, cluster) == group_shapes(ends, mesh, identity, cluster));
    }
  }
  CHECK(several > 100);  // the sample holds groups that node boundaries cut differently
}
