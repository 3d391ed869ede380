#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "jobs/first_short_job.hpp"
#include "jobs/node_pool.hpp"

using namespace orrery;
using Shares = std::vector<NodeShare>;

TEST_CASE("a job gets the fullest nodes, and the best fit for the rest", "[unit][jobs]") {
  NodePool pool({4, 4, 8, 2});
  CHECK(pool.gpus() == 18);
  CHECK(pool.take(2, PlaceRule::packed) == Shares{{3, 2}});           // the smallest node that suffices
  CHECK(pool.take(3, PlaceRule::packed) == Shares{{0, 3}});           // 4 is the least that holds 3; the lower number
  CHECK(pool.take(11, PlaceRule::packed) == Shares{{2, 8}, {1, 3}});  // more than any node has: the most free first
  CHECK(pool.free_gpus() == 2);
  CHECK(pool.take(3, PlaceRule::packed).empty());
  CHECK(pool.take(2, PlaceRule::consolidated).empty());  // one GPU of node 0 and one of node 1 are free
  CHECK(pool.take(2, PlaceRule::packed) == Shares{{0, 1}, {1, 1}});
}

TEST_CASE("the least nodes of a job are those on an empty cluster", "[unit][jobs]") {
  const NodePool pool({4, 4, 8, 2});
  for (const auto& [gpus, nodes] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}, {16, 3}, {17, 4}, {18, 4}}) {
    CAPTURE(gpus);
    CHECK(pool.least_nodes(gpus) == nodes);
  }
}

TEST_CASE("what is given back is as if it had not been taken", "[property][jobs]") {
  NodePool pool({3, 5, 8, 8}), empty({3, 5, 8, 8});
  std::vector<Shares> held;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto gpus = static_cast<std::uint32_t>(1 + random_bits(7, 1, i) % 12);
    const auto before = pool.free_gpus();
    if (Shares s = pool.take(gpus, random_bits(7, 2, i) % 2 == 0 ? PlaceRule::packed : PlaceRule::consolidated);
        !s.empty()) {
      CHECK(pool.free_gpus() + gpus == before);
      held.push_back(std::move(s));
    } else {
      CHECK(pool.free_gpus() == before);
    }
    if (!held.empty() && random_bits(7, 3, i) % 2 == 0) {
      pool.give_back(held[random_bits(7, 4, i) % held.size()]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(random_bits(7, 4, i) % held.size()));
    }
  }
  for (const Shares& s : held) pool.give_back(s);
  CHECK(pool.free_gpus() == 24);
  for (const std::uint32_t gpus : {4U, 24U})
    CHECK(pool.take(gpus, PlaceRule::packed) == empty.take(gpus, PlaceRule::packed));
}

TEST_CASE("the first short job is the one that a walk finds", "[property][jobs]") {
  FirstShortJob index;
  std::vector<std::pair<JobNumber, Microseconds>> list;
  CHECK(index.empty());
  for (std::uint64_t i = 0; i < 3000; ++i) {
    if (list.empty() || random_bits(3, 1, i) % 2 == 0) {
      const auto run = static_cast<Microseconds>(random_bits(3, 2, i) % 50);
      index.push(static_cast<JobNumber>(i), run);
      list.emplace_back(static_cast<JobNumber>(i), run);
    } else {
      const std::size_t at = random_bits(3, 3, i) % list.size();
      index.erase(list[at].first);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const auto limit = static_cast<Microseconds>(random_bits(3, 4, i) % 60) - 5;
    std::optional<JobNumber> first;
    for (const auto& [job, run] : list) {
      if (!first && run <= limit) first = job;
    }
    REQUIRE(index.first(limit) == first);
    REQUIRE(index.empty() == list.empty());
  }
}
