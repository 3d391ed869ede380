#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>

#include <map>
#include <set>
#include <utility>

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

// This law lets bounds of one mesh stand for another: a group's shape follows from how each of its axes lies, whatever
// the order and the sizes of the others.
TEST_CASE("Groups over axes that lie alike have one shape on all aligned meshes", "[property][group-shape]") {
  const std::uint64_t seed = 20261125;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::size_t ways = 0, meshes = 0;
  for (int i = 0; i < 60; ++i) {
    ClusterSpec cluster;
    std::uint32_t devices = 1;
    for (int l = 0; l < 3; ++l) {
      const std::uint32_t size = 1U << (1 + random() % 3);
      cluster.levels.push_back({"level", size, gigabyte_per_second, microsecond});
      devices *= size;
    }
    cluster.devices_per_node = cluster.levels[0].size;
    cluster.nodes = devices / cluster.devices_per_node;
    using Lies = std::vector<std::vector<std::uint32_t>>;
    std::map<Lies, std::vector<GroupShape>> known;
    for (int n = 0; n < 200; ++n) {
      // All devices, in powers of two over four axes in any order.
      std::vector<Axis> order{Axis::pipeline, Axis::data, Axis::row, Axis::column};
      std::shuffle(order.begin(), order.end(), random);
      std::array<std::uint32_t, 4> sizes{1, 1, 1, 1};
      for (std::uint32_t left = devices; left > 1; left /= 2) sizes[random() % 4] *= 2;
      Mesh mesh;
      for (std::size_t a = 0; a < 4; ++a) mesh.axes.push_back({order[a], sizes[a]});
      REQUIRE(is_aligned(mesh, cluster));
      const auto lies = [&](Axis axis) {
        std::vector<std::uint32_t> of = axis_layout(mesh, axis, cluster);
        of.push_back(mesh.size(axis));
        return of;
      };
      const std::vector<GroupShape> shapes = group_shapes(Group{{Axis::row, Axis::column}, {}}, mesh, {}, cluster);
      const auto [at, fresh] = known.try_emplace({lies(Axis::row), lies(Axis::column)}, shapes);
      CHECK(at->second == shapes);
      ++meshes;
      ways += fresh ? 1 : 0;
    }
  }
  CHECK(ways * 2 < meshes);  // most met another before them
}

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
