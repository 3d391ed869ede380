#include "sim/bound/shared_memo.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace orrery;

namespace {

using Key = std::array<std::uint32_t, 2>;
using Memo = SharedMemo<Key, std::string, ArrayHash<std::uint32_t, 2>>;

}  // namespace

TEST_CASE("what one memo is told those beside it know, the first answer for all", "[unit][bound]") {
  Memo one;
  Memo other = one.beside();
  CHECK(one.find({1, 2}) == nullptr);
  CHECK(other.find({1, 2}) == nullptr);
  const std::string& told = one.add({1, 2}, "first");
  CHECK(other.find({1, 2}) == &told);
  CHECK(&other.add({1, 2}, "second") == &told);
  CHECK(told == "first");
  CHECK(other.find({2, 1}) == nullptr);
  CHECK(Memo().find({1, 2}) == nullptr);
  // As long as any of them is there.
  Memo last = Memo(one).beside();
  one = other = Memo();
  REQUIRE(last.find({1, 2}) != nullptr);
  CHECK(*last.find({1, 2}) == "first");
}

TEST_CASE("threads that fill a memo at once agree, and what was handed out stays", "[unit][bound]") {
  constexpr std::uint32_t keys = 5000;
  const Memo shared;
  std::vector<std::vector<const std::string*>> seen(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&, t, memo = shared.beside()]() mutable {
      for (std::uint32_t i = 0; i < keys; ++i) {
        const Key key{i, i % 7};
        const std::string* known = memo.find(key);
        seen[t].push_back(known != nullptr ? known : &memo.add(key, std::to_string(i)));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::uint32_t i = 0; i < keys; ++i) {
    REQUIRE(*seen[0][i] == std::to_string(i));
    for (const auto& of_thread : seen) REQUIRE(of_thread[i] == seen[0][i]);
  }
}
