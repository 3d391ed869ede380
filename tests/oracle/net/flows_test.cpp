#include <catch2/catch.hpp>

#include <cmath>
#include <random>

#include "tests/support/net/naive.hpp"

// An independent way to the same fluid model: progressive filling over all
// flows at every event.  Another is in simgrid_test.cpp.

using namespace orrery;
using namespace orrery::test;

namespace {

struct Message {
  std::vector<LinkId> route;
  std::vector<std::uint32_t> links;  ///< links of the naive network: as often as the weight, then the limit's own
  std::vector<double> weights;
  double most = std::numeric_limits<double>::infinity();
  Picoseconds begin = 0;
};

}  // namespace

TEST_CASE("rates are max-min fair after every event, on random links and routes", "[oracle][net]") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
    const std::uint32_t links = 1 + draw(12), messages = 1 + draw(40);
    // Half of the networks have weights and limits, so that the others go the plain way.
    const bool strands = seed % 2 == 1;
    // A small number of different capacities gives many links that fill at once.
    const bool ties = draw(2) == 0;
    std::vector<long double> capacity(links);
    for (auto& x : capacity) x = ties ? 1e9L * (1 << draw(3)) : 1e9L * (1 + draw(1000)) / 100;
    FlowNetwork network(links, [&](LinkId l) { return Bandwidth::of(static_cast<double>(capacity[index(l)])); });
    std::vector<Message> all(messages);
    for (std::uint32_t i = 0; i < messages; ++i) {
      for (std::uint32_t l = 0; l < links; ++l) {
        if (draw(links) >= 4) continue;
        const std::uint32_t weight = strands ? 1 + draw(3) : 1;
        for (std::uint32_t w = 0; w < weight; ++w) all[i].links.push_back(l);
        all[i].route.push_back(LinkId{l});
        all[i].weights.push_back(weight);
      }
      if (all[i].links.empty()) all[i] = {{LinkId{0}}, {0}, {1.0}};
      if (strands && draw(3) == 0) {
        all[i].most = 1e9 * (1 + draw(8)) / 4;
        all[i].links.push_back(static_cast<std::uint32_t>(capacity.size()));
        capacity.push_back(all[i].most);
      }
      all[i].begin = ties ? 1000 * draw(4) : draw(2'000'000);
      const Bytes payload = Bytes::of(1 + draw(ties ? 3 : 4000));
      if (strands) {
        network.start(0, all[i].route, all[i].weights, Bandwidth::of(all[i].most), all[i].begin, payload, i);
      } else {
        network.start(0, all[i].route, all[i].begin, payload, i);
      }
    }
    std::vector<std::uint32_t> ended;
    std::vector<bool> over(messages, false);
    while (!network.idle()) {
      const Picoseconds now = network.next_event();
      ended.clear();
      network.advance(ended);
      for (const std::uint32_t i : ended) over[i] = true;
      std::vector<std::vector<std::uint32_t>> routes;
      for (std::uint32_t i = 0; i < messages; ++i) {
        routes.push_back(over[i] || all[i].begin > now ? std::vector<std::uint32_t>{} : all[i].links);
      }
      const std::vector<long double> want = naive_rates(capacity, routes);
      for (std::uint32_t i = 0; i < messages; ++i) {
        if (routes[i].empty()) continue;
        CAPTURE(seed, i, now);
        // The margin is for rounding of levels (1e-12 each), passed on over a few links.
        REQUIRE(network.rate(i).base() == Approx(static_cast<double>(want[i])).epsilon(1e-10).margin(0));
      }
    }
  }
}

TEST_CASE("times of traffic equal those of rates computed anew at every event", "[oracle][net]") {
  // The margin is 1e-6 for whole picoseconds, whose rounding the ends of others then carry on.
  const std::uint64_t seed = GENERATE(1U, 2U, 3U);
  const Tree tree = GENERATE(star(16), two_to_one(48));
  CAPTURE(seed, tree.hosts);
  CHECK(largest_difference(run(tree, irregular(tree.hosts, 5, seed, true)),
                           run_naive(tree, irregular(tree.hosts, 5, seed, true))) < 1e-6);
  CHECK(largest_difference(run(tree, irregular(tree.hosts, 3, seed)), run_naive(tree, irregular(tree.hosts, 3, seed))) <
        1e-6);
  CHECK(largest_difference(run(tree, ring(tree.hosts, 16, 1e8, 2)), run_naive(tree, ring(tree.hosts, 16, 1e8, 2))) <
        1e-6);
}
