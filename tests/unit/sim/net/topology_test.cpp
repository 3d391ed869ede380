#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <set>

#include "sim/net/topology.hpp"

using namespace orrery;

namespace {

constexpr Link cable{LinkKind::network, Bandwidth::of(1e9), Seconds::of(1e-6)};

/// Links on the shortest way from one end to every vertex, by breadth-first search over all links.
std::vector<std::uint32_t> distances(const Topology& t, std::uint32_t from) {
  std::vector<std::vector<std::uint32_t>> next(t.vertices());
  for (std::uint32_t l = 0; l < t.links(); ++l) next[t.sides(l).from].push_back(t.sides(l).to);
  std::vector<std::uint32_t> distance(t.vertices(), 1'000'000);
  distance[from] = 0;
  for (std::deque<std::uint32_t> queue{from}; !queue.empty(); queue.pop_front()) {
    for (const std::uint32_t v : next[queue.front()]) {
      if (distance[v] != 1'000'000) continue;
      distance[v] = distance[queue.front()] + 1;
      queue.push_back(v);
    }
  }
  return distance;
}

/// `longest` is the number of links that a route may have beyond the shortest.
void check_routes(const Topology& t, std::uint32_t longer = 0) {
  std::set<std::string> names;
  for (std::uint32_t v = 0; v < t.vertices(); ++v) names.insert(t.vertex_name(v));
  CHECK(names.size() == t.vertices());
  std::multiset<std::pair<std::uint32_t, std::uint32_t>> cables;
  for (std::uint32_t l = 0; l < t.links(); ++l) {
    REQUIRE(t.sides(l).from < t.vertices());
    REQUIRE(t.sides(l).to < t.vertices());
    cables.insert({t.sides(l).from, t.sides(l).to});
  }
  for (const auto& [a, b] : cables) REQUIRE(cables.count({b, a}) == cables.count({a, b}));  // every cable has two ways
  for (std::uint32_t a = 0; a < t.ends(); ++a) {
    const std::vector<std::uint32_t> shortest = distances(t, a);
    for (std::uint32_t b = 0; b < t.ends(); ++b) {
      for (const bool hashed : {false, true}) {
        std::vector<std::uint32_t> route{77};
        t.route(a, b, {hashed, random_bits(3, a, b)}, route);
        REQUIRE(route.front() == 77);  // what stood there stays
        std::uint32_t at = a;
        for (std::size_t i = 1; i < route.size(); ++i) {
          REQUIRE(route[i] < t.links());
          REQUIRE(t.sides(route[i]).from == at);
          at = t.sides(route[i]).to;
        }
        REQUIRE(at == b);
        REQUIRE(route.size() - 1 <= shortest[b] + longer);
      }
    }
  }
}

}  // namespace

TEST_CASE("routes of fat trees are shortest paths", "[unit][net]") {
  check_routes(*fat_tree(7, {{7, 1, cable}}));
  check_routes(*fat_tree(24, {{4, 1, cable}, {6, 3, cable}}));
  check_routes(*fat_tree(24, {{2, 2, cable}, {3, 1, cable}, {4, 5, cable}}));
  check_routes(*fat_tree(21, {{4, 1, cable}, {3, 2, cable}, {2, 4, cable}}));  // partly empty
  check_routes(*fat_tree(32, {{2, 1, cable}, {2, 2, cable}, {2, 2, cable}, {4, 1, cable}}));
}

TEST_CASE("routes of tori and hypercubes are shortest paths", "[unit][net]") {
  check_routes(*torus({5}, cable));
  check_routes(*torus({4, 6}, cable));
  check_routes(*torus({3, 1, 4}, cable));
  check_routes(*torus({1}, cable));
  check_routes(*torus({2, 2, 2, 2, 2}, cable));
  CHECK(torus({2, 2, 2}, cable)->links() == 8 * 3);
  CHECK(torus({4, 4, 4}, cable)->links() == 64 * 6);
}

TEST_CASE("routes of dragonflies are minimal", "[unit][net]") {
  // Routes are local, global, local at most. That is one link more than two global ones at routers that have both.
  // Where several cables join two groups, it is two more than the one between the right routers.
  check_routes(*dragonfly({9, 4, 2, 2, cable, cable}), 1);
  check_routes(*dragonfly({5, 4, 1, 2, cable, cable}), 2);
  check_routes(*dragonfly({1, 4, 2, 1, cable, cable}));
  check_routes(*dragonfly({2, 1, 3, 1, cable, cable}));
  check_routes(*dragonfly({4, 2, 1, 2, cable, cable}), 2);  // one port of each group has no cable
}

TEST_CASE("routes over wires are shortest paths that pass through no end", "[unit][net]") {
  const std::vector<std::string> names{"a", "b", "c", "s", "t"};
  // a - b - c directly, but b passes nothing on: a to c goes by s and t.
  const std::vector<Wire> wires{{0, 1, cable}, {1, 2, cable}, {0, 3, cable}, {3, 4, cable}, {4, 2, cable}};
  const auto t = wired(3, names, wires);
  std::vector<std::uint32_t> route;
  t->route(0, 2, {}, route);
  CHECK(route == std::vector<std::uint32_t>{4, 6, 8});
  route.clear();
  t->route(1, 0, {}, route);
  CHECK(route == std::vector<std::uint32_t>{1});
  CHECK(unconnected(3, 5, wires) == Topology::Sides{0, 0});
  CHECK(unconnected(3, 5, {wires[0], wires[1]}) == Topology::Sides{2, 0});
}

TEST_CASE("of shortest ways over wires the one with the widest narrowest wire is taken", "[unit][net]") {
  // There are two GPUs on an NVLink switch and on one PCIe switch: two links either way.
  Link wide = cable;
  wide.bandwidth = 20.0 * cable.bandwidth;
  const std::vector<std::string> names{"gpu0", "gpu1", "gpu2", "pcie", "nvswitch"};
  const std::vector<Wire> wires{{0, 3, cable}, {1, 3, cable}, {2, 3, cable}, {0, 4, wide}, {1, 4, wide}, {2, 4, wide}};
  const auto t = wired(3, names, wires);
  for (std::uint32_t from = 0; from < 3; ++from) {
    for (std::uint32_t to = 0; to < 3; ++to) {
      if (from == to) continue;
      std::vector<std::uint32_t> route;
      t->route(from, to, {}, route);
      CHECK(route == std::vector<std::uint32_t>{2 * (3 + from), 2 * (3 + to) + 1});
    }
  }
  // A wide first wire before a narrow second one is no better than two of the middle kind.
  Link middle = cable;
  middle.bandwidth = 2.0 * cable.bandwidth;
  const auto u = wired(2, {"a", "b", "s", "t"}, {{0, 2, wide}, {2, 1, cable}, {0, 3, middle}, {3, 1, middle}});
  std::vector<std::uint32_t> route;
  u->route(0, 1, {}, route);
  CHECK(route == std::vector<std::uint32_t>{4, 6});
  // Where ways are equally wide, destinations are still spread over them.
  const auto v = wired(3, {"a", "b", "c", "s", "t"},
                       {{0, 3, cable}, {1, 3, cable}, {2, 3, cable}, {0, 4, cable}, {1, 4, cable}, {2, 4, cable}});
  std::vector<std::uint32_t> one, other;
  v->route(0, 1, {}, one);
  v->route(0, 2, {}, other);
  CHECK(one.front() != other.front());
}

// Zahavi 2010: every destination has its own way down, so any shift of all ends
// uses each link once when the tree has full bandwidth.
TEST_CASE("by destination, a shift of all ends crosses no link twice in a full fat tree", "[unit][net]") {
  const auto t = fat_tree(64, {{4, 1, cable}, {4, 4, cable}, {4, 4, cable}});
  for (std::uint32_t shift = 1; shift < 64; ++shift) {
    std::vector<std::uint32_t> links;
    for (std::uint32_t a = 0; a < 64; ++a) t->route(a, (a + shift) % 64, {}, links);
    std::sort(links.begin(), links.end());
    CHECK(std::adjacent_find(links.begin(), links.end()) == links.end());
  }
}
