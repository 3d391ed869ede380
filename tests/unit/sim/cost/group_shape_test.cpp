#include <catch2/catch.hpp>
#include <vector>

#include "sim/cost/group_shape.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

namespace {

GroupShape shape_of(std::vector<std::uint32_t> devices, const ClusterSpec& c) { return group_shape(devices, c); }

GroupShape expected(std::uint32_t members, std::vector<GroupShape::Level> levels) {
  GroupShape s;
  s.members = members;
  for (const auto& l : levels) s.level[s.levels++] = l;
  return s;
}

}  // namespace

TEST_CASE("A group's shape counts units and the fewest members in one", "[group-shape]") {
  const ClusterSpec c = round_cluster(4, 8);
  CHECK(shape_of({5}, c) == expected(1, {}));
  // Inside node 1: one unit with all three.
  CHECK(shape_of({8, 9, 15}, c) == expected(3, {{1, 3}}));
  // There is one member on each of nodes 0, 2, 3.
  CHECK(shape_of({0, 16, 31}, c) == expected(3, {{3, 1}, {1, 3}}));
  // Nodes 0 (6, 7) and 1 (8, 9, 10): two units, the smaller with two.
  CHECK(shape_of({6, 7, 8, 9, 10}, c) == expected(5, {{2, 2}, {1, 5}}));
  // The order of the members does not matter.
  CHECK(shape_of({10, 6, 9, 7, 8}, c) == shape_of({6, 7, 8, 9, 10}, c));
}

TEST_CASE("Node boundaries that cut groups differently give several shapes", "[group-shape]") {
  // Four nodes of 8, tensor groups of 3: ranks 0-2 and 3-5 lie in node 0, 6-8 on nodes 0 and 1.
  const ClusterSpec c = round_cluster(4, 8);
  const Mesh mesh{{{Axis::data, 10}, {Axis::tensor, 3}}};
  const auto shapes = group_shapes(Group{{Axis::tensor}, {}}, mesh, {}, c);
  REQUIRE(shapes.size() == 2);
  CHECK(shapes[0] == expected(3, {{1, 3}}));
  CHECK(shapes[1] == expected(3, {{2, 1}, {1, 3}}));
}

TEST_CASE("Placement moves ranks to other devices", "[group-shape]") {
  const ClusterSpec c = round_cluster(2, 2);
  const Mesh mesh{{{Axis::tensor, 4}}};
  const std::vector<std::uint32_t> pairs{0, 2, 1, 3};
  const Mesh two{{{Axis::data, 2}, {Axis::tensor, 2}}};
  // Rank 1 sits on device 2, so tensor groups {0, 1} and {2, 3} each cross nodes.
  CHECK(group_shapes(Group{{Axis::tensor}, {}}, two, pairs, c) == std::vector{expected(2, {{2, 1}, {1, 2}})});
  CHECK(group_shapes(Group{{Axis::tensor}, {}}, two, {}, c) == std::vector{expected(2, {{1, 2}})});
  CHECK(group_shapes(Group{{Axis::tensor}, {}}, mesh, {}, c) == std::vector{expected(4, {{2, 2}, {1, 4}})});
}

TEST_CASE("A subset of a group counts only its members", "[group-shape]") {
  // First and last of four pipeline stages, two stages per node.
  const ClusterSpec c = round_cluster(2, 2);
  const Mesh mesh{{{Axis::pipeline, 4}}};
  CHECK(group_shapes(Group{{Axis::pipeline}, {0, 3}}, mesh, {}, c) == std::vector{expected(2, {{2, 1}, {1, 2}})});
}

TEST_CASE("Two devices meet at the innermost level that holds both", "[group-shape]") {
  const ClusterSpec c = round_cluster(4, 8);
  CHECK(level_between(0, 7, c) == 0);
  CHECK(level_between(7, 8, c) == 1);
  CHECK(level_between(31, 0, c) == 1);
}
