#include <catch2/catch.hpp>

#include <algorithm>

#include "sim/des/perturbation.hpp"
#include "sim/des/rank_classes.hpp"

using namespace orrery;

namespace {

/// Ranks in a row that send to their right neighbours; with `closed` the last sends to the first.
MeetingGraph row(std::uint32_t ranks, bool closed) {
  MeetingGraph graph;
  graph.ranks.assign(ranks, 0);
  graph.flows.assign(closed ? ranks : ranks - 1, 0);
  for (std::uint32_t f = 0; f < graph.flows.size(); ++f) {
    graph.taking_part.push_back({f, f, 1});
    graph.taking_part.push_back({(f + 1) % ranks, f, 2});
  }
  return graph;
}

}  // namespace

TEST_CASE("All ranks of a closed ring are alike, and one that is slower parts them by distance", "[unit][des]") {
  CHECK(stable_classes(row(12, true)).ranks == 1);
  CHECK(stable_classes(row(12, true)).flows == 1);
  MeetingGraph graph = row(12, true);
  graph.ranks[5] = 1;
  // Messages have a direction, so the ranks to the left are not those to the right.
  CHECK(stable_classes(graph).ranks == 12);
  for (auto& e : graph.taking_part) e.label = 0;
  // Without it, distances 0 to 6 are left.
  CHECK(stable_classes(graph).ranks == 7);
}

TEST_CASE("An open row has no two ranks alike", "[unit][des]") {
  // A message goes from left to right, so the ends differ, and from them the distance to each end counts.
  const GraphClasses classes = stable_classes(row(9, false));
  CHECK(classes.ranks == 9);
  CHECK(classes.flows == 8);
  CHECK(classes.rounds <= 9);
}

// Two pairs of ranks, each with a message; both messages cross link 0, and one of them link 1 too.
TEST_CASE("Links part the ranks whose messages cross them", "[unit][des]") {
  MeetingGraph graph;
  graph.ranks.assign(4, 0);
  graph.flows.assign(2, 0);
  graph.taking_part = {{0, 0, 1}, {1, 0, 2}, {2, 1, 1}, {3, 1, 2}};
  CHECK(stable_classes(graph).ranks == 2);  // senders and receivers
  graph.links.assign(2, 7);
  graph.crossing = {{0, 0, 1}, {1, 0, 1}};
  GraphClasses classes = stable_classes(graph);
  CHECK(classes.ranks == 2);
  CHECK(classes.links == 2);  // one that is used, one that is not
  graph.crossing.push_back({1, 1, 1});
  classes = stable_classes(graph);
  CHECK(classes.ranks == 4);
  CHECK(classes.flows == 2);
  // An equally wide link of its own for the other message makes them alike again.
  graph.links.assign(3, 7);
  graph.crossing.push_back({0, 2, 1});
  CHECK(stable_classes(graph).ranks == 2);
  graph.links[2] = 8;
  CHECK(stable_classes(graph).ranks == 4);
  graph.links[2] = 7;
  graph.crossing.back().label = 2;  // another weight
  CHECK(stable_classes(graph).ranks == 4);
}

TEST_CASE("Classes are numbered by their first rank", "[unit][des]") {
  const RankClasses classes = rank_classes({9, 4, 9, 9, 2});
  CHECK(classes.of_rank == std::vector<std::uint32_t>{0, 1, 0, 0, 2});
  CHECK(classes.representative == std::vector<Rank>{Rank{0}, Rank{1}, Rank{4}});
  CHECK(classes.ranks == std::vector<std::uint32_t>{3, 1, 1});
}

TEST_CASE("Stragglers of a smaller count are among those of a larger one", "[unit][des]") {
  CHECK(slow_ranks(std::nullopt, 8).empty());
  CHECK(slow_ranks(Stragglers{1, 0, 2.0}, 8).empty());
  std::vector<bool> before(64, false);
  for (std::uint32_t count = 1; count <= 64; ++count) {
    const std::vector<bool> slow = slow_ranks(Stragglers{3, count, 2.0}, 64);
    CHECK(std::count(slow.begin(), slow.end(), true) == count);
    for (std::size_t r = 0; r < slow.size(); ++r) CHECK((slow[r] || !before[r]));
    before = slow;
  }
  CHECK(slow_ranks(Stragglers{3, 5, 2.0}, 64) != slow_ranks(Stragglers{4, 5, 2.0}, 64));
}
