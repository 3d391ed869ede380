#include "sim/bound/recompute_counts.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {

/// Counts after each layer more on a rank.
std::vector<std::vector<std::uint32_t>> all_of(const std::vector<std::uint32_t>& layers, const StageMap& map,
                                               std::uint32_t rank) {
  std::vector<std::uint32_t> counts(layers.size(), 0);
  std::vector<std::vector<std::uint32_t>> list;
  while (recompute_one_more(counts, layers, map, rank)) list.push_back(counts);
  return list;
}

}  // namespace

TEST_CASE("a rank's recomputed layers rise one by one, as equally over its stages as they may", "[unit][bound]") {
  using List = std::vector<std::vector<std::uint32_t>>;
  // One stage on each rank.
  CHECK(all_of({2, 3}, {2, 1}, 1) == List{{0, 1}, {0, 2}, {0, 3}});
  // Stages 0 and 2 on rank 0: of equals the lower, and what is left once one has no more.
  CHECK(all_of({1, 9, 3, 9}, {2, 2}, 0) == List{{1, 0, 0, 0}, {1, 0, 1, 0}, {1, 0, 2, 0}, {1, 0, 3, 0}});
  // On a V stages 1 and 2 are on rank 1.
  CHECK(all_of({9, 1, 1, 9}, {2, 2, StagePlacement::v}, 1) == List{{0, 1, 0, 0}, {0, 1, 1, 0}});
  // Both ranks of a pair hold both stages, and raise them alike.
  const StageMap pair{2, 2, StagePlacement::two_way};
  CHECK(all_of({1, 2}, pair, 0) == List{{1, 0}, {1, 1}, {1, 2}});
  CHECK(all_of({1, 2}, pair, 1) == all_of({1, 2}, pair, 0));
}
