#include "sweep/point_workers.hpp"

#include <catch2/catch.hpp>

#include <numeric>
#include <set>

using namespace orrery;

namespace {

std::vector<std::uint64_t> numbers(std::size_t count) {
  std::vector<std::uint64_t> out(count);
  std::iota(out.begin(), out.end(), std::uint64_t{0});
  return out;
}

std::optional<SweptPoint> numbered(std::uint64_t number) {
  SweptPoint p;
  p.number = number;
  return p;
}

}  // namespace

TEST_CASE("every point is computed once, by any number of threads", "[unit][sweep]") {
  for (const unsigned threads : {1U, 4U, 200U}) {
    std::multiset<std::uint64_t> done;
    compute_points(
        numbers(100), threads, numbered, [&](const SweptPoint& p) { done.insert(p.number); }, false);
    CHECK(done.size() == 100);
    CHECK(std::set<std::uint64_t>(done.begin(), done.end()).size() == 100);
  }
}

TEST_CASE("no point begins once all is to end, and what was computed stays", "[unit][sweep]") {
  std::atomic<bool> stop{false};
  std::size_t begun = 0, done = 0;
  compute_points(
      numbers(100), 1,
      [&](std::uint64_t number) {
        ++begun;
        stop = number == 9;
        return number == 9 ? std::nullopt : numbered(number);
      },
      [&](const SweptPoint&) { ++done; }, stop);
  CHECK(begun == 10);
  CHECK(done == 9);
}

TEST_CASE("an exception of one point ends all and is thrown", "[unit][sweep]") {
  const auto some = [](std::uint64_t number) {
    if (number == 5) throw Error("the disk is full");
    return numbered(number);
  };
  for (const unsigned threads : {1U, 3U}) {
    std::size_t done = 0;
    CHECK_THROWS_WITH(compute_points(
                          numbers(1000), threads, some, [&](const SweptPoint&) { ++done; }, false),
                      "the disk is full");
    if (threads == 1) CHECK(done == 5);
  }
}
