#include "sim/net/collective_traffic.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <numeric>

using namespace orrery;
using Kind = Collective::Kind;

namespace {

double total(const std::vector<PairTraffic>& pairs) {
  return std::accumulate(pairs.begin(), pairs.end(), 0.0,
                         [](double sum, const PairTraffic& t) { return sum + t.payload.base(); });
}

std::vector<PairTraffic> of(Kind kind, CollectiveAlgorithm a, const std::vector<std::uint32_t>& boxes) {
  return collective_traffic(kind, a, boxes, Bytes::of(1.0));
}

}  // namespace

TEST_CASE("two trees: two children at most, one root each, no member inside both but for one of an odd number",
          "[unit][net]") {
  for (std::uint32_t p = 1; p <= 300; ++p) {
    CAPTURE(p);
    const TwoTrees trees = two_trees(p);
    std::vector<std::uint32_t> first(p), second(p);
    for (const auto& [parent, children] : {std::pair{&trees.first, &first}, {&trees.second, &second}}) {
      for (std::uint32_t i = 0; i < p; ++i) {
        if ((*parent)[i] != i) ++(*children)[(*parent)[i]];
        // Every way up ends, after few steps.
        std::uint32_t at = i, steps = 0;
        while ((*parent)[at] != at) {
          at = (*parent)[at];
          REQUIRE(++steps <= 10);
        }
      }
      CHECK(*std::max_element(children->begin(), children->end()) <= 2);
      CHECK(std::accumulate(children->begin(), children->end(), 0U) == p - 1);
    }
    std::uint32_t both = 0;
    for (std::uint32_t i = 0; i < p; ++i) both += first[i] > 0 && second[i] > 0 ? 1 : 0;
    CHECK(both <= p % 2);
  }
}

// Reducing p vectors to one moves p - 1 of them, and handing it back moves as many. No algorithm among these sends less
// or more.
TEST_CASE("traffic of collectives over single members adds up to what they must move", "[unit][net]") {
  for (std::uint32_t p = 2; p <= 40; ++p) {
    CAPTURE(p);
    const std::vector<std::uint32_t> single(p, 1), one{p};
    for (const auto& boxes : {single, one}) {
      CHECK(total(of(Kind::all_reduce, CollectiveAlgorithm::ring, boxes)) == Approx(2.0 * (p - 1)));
      CHECK(total(of(Kind::all_reduce, CollectiveAlgorithm::tree, boxes)) == Approx(2.0 * (p - 1)));
      CHECK(total(of(Kind::all_reduce, CollectiveAlgorithm::recursive, boxes)) == Approx(2.0 * (p - 1)));
      CHECK(total(of(Kind::all_gather, CollectiveAlgorithm::ring, boxes)) == Approx(p - 1.0));
      CHECK(total(of(Kind::reduce_scatter, CollectiveAlgorithm::recursive, boxes)) == Approx(p - 1.0));
      CHECK(total(of(Kind::broadcast, CollectiveAlgorithm::tree, boxes)) == Approx(p - 1.0));
      CHECK(total(of(Kind::all_to_all, CollectiveAlgorithm::ring, boxes)) == Approx(p - 1.0));
      CHECK(of(Kind::barrier, CollectiveAlgorithm::ring, boxes).empty());
    }
    CHECK(total(of(Kind::broadcast, CollectiveAlgorithm::ring, single)) == Approx(p - 1.0));
  }
  // Bruck's rounds send blocks on: half of them in each round, where p is a power of two.
  CHECK(total(of(Kind::all_to_all, CollectiveAlgorithm::recursive, std::vector<std::uint32_t>(16, 1))) ==
        Approx(16.0 / 2.0 * 4.0));
}

// A box's outgoing bytes are its ring's share, equal over all ports.
TEST_CASE("traffic between boxes is spread over their ports", "[unit][net]") {
  const std::vector<std::uint32_t> boxes{4, 4, 4};
  std::map<std::uint32_t, double> leaves;
  for (const PairTraffic& t : of(Kind::all_reduce, CollectiveAlgorithm::ring, boxes)) {
    if (t.from / 4 != t.to / 4) {
      CHECK(t.from % 4 == t.to % 4);
      leaves[t.from] += t.payload.base();
    }
  }
  CHECK(leaves.size() == 12);
  for (const auto& [member, bytes] : leaves) CHECK(bytes == Approx(2.0 * 11.0 / 12.0 / 4.0));

  // In `recursive`, all but a fourth of the vector is settled inside a box, and the rest goes on over four ports.
  leaves.clear();
  for (const PairTraffic& t : of(Kind::all_reduce, CollectiveAlgorithm::recursive, boxes)) {
    if (t.from / 4 != t.to / 4) leaves[t.from] += t.payload.base();
  }
  for (const auto& [member, bytes] : leaves) CHECK(bytes == Approx(2.0 * 2.0 / 3.0 / 4.0));
}

// NVLS: for the reduction each member's link carries its vector up and the sum's own part down, and for the multicast
// the part up and the sum down: n (1 + 1 / s) each way. Two boxes hand the sum's halves both ways over all ports.
TEST_CASE("reductions in switches load each link of a box alike", "[unit][net]") {
  for (std::uint32_t s = 2; s <= 8; ++s) {
    CAPTURE(s);
    const std::vector<std::uint32_t> one{s}, two{s, s};
    const auto pairs = collective_traffic(Kind::all_reduce, CollectiveAlgorithm::ring, one, Bytes::of(1.0), true);
    REQUIRE(pairs.size() == s);
    for (const PairTraffic& t : pairs) CHECK(t.payload.base() == Approx(1.0 + 1.0 / s));
    // Inside it is as before. Between the boxes there are two trees of one edge each, half up and half down: 2 in all.
    CHECK(total(collective_traffic(Kind::all_reduce, CollectiveAlgorithm::ring, two, Bytes::of(1.0), true)) ==
          Approx(2.0 * s * (1.0 + 1.0 / s) + 2.0));
  }
}

// There are 2 boxes of 4 and 2. Inside, 1 + 1 / s of the vector goes to the next member with NVLS, and all of it once
// without. Between boxes half of it goes by each of the two ports, out and in.
TEST_CASE("switches that add take a vector from every port once, and give it back once", "[unit][net]") {
  const std::vector<std::uint32_t> boxes{4, 2};
  for (const bool nvls : {false, true}) {
    const auto all =
        collective_traffic(Collective::Kind::all_reduce, CollectiveAlgorithm::in_network, boxes, Bytes::of(8.0), nvls);
    std::vector<double> out(6, 0.0), in(6, 0.0), inside(6, 0.0);
    for (const PairTraffic& t : all) {
      if ((t.from < 4) == (t.to < 4)) {
        inside[t.from] += t.payload.base();
      } else {
        out[t.from] += t.payload.base();
        in[t.to] += t.payload.base();
      }
    }
    CHECK(out == std::vector<double>{4.0, 4.0, 0.0, 0.0, 4.0, 4.0});
    CHECK(in == out);
    const double four = nvls ? 10.0 : 8.0, two = nvls ? 12.0 : 8.0;
    CHECK(inside == std::vector<double>{four, four, four, four, two, two});
  }
}
