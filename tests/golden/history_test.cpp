#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/golden/history_cases.hpp"

using namespace orrery;

// The file was written by one build and is compared by all: with and without optimization, assertions and address
// checks. Only `update_golden` makes it anew, alone in a commit.
TEST_CASE("event histories are those of the golden file, whatever the build", "[golden][simulate]") {
  std::stringstream then;
  then << std::ifstream(test::histories_path(), std::ios::binary).rdbuf();
  const std::vector<test::History> now = test::play_histories();
  CHECK(test::histories_text(now) == then.str());

  // A folded step equals an expanded one where nothing is shared; cases that differ otherwise differ here.
  const auto hash_of = [&](const std::string& name) {
    const auto found = std::find_if(now.begin(), now.end(), [&](const test::History& h) { return h.name == name; });
    REQUIRE(found != now.end());
    return found->hash;
  };
  CHECK(hash_of("gpt-zero-dropout.alone") == hash_of("gpt-zero-dropout.expanded"));
  std::set<std::uint64_t> distinct;
  for (const char* how : {"alone", "by-destination", "stragglers", "noise"}) {
    distinct.insert(hash_of(std::string("gpt-zero-dropout.") + how));
  }
  CHECK(distinct.size() == 4);
}

TEST_CASE("simulations on two threads at once have the histories of one", "[golden][simulate]") {
  const std::string one = test::histories_text(test::play_histories());
  std::string left, right;
  std::thread other([&] { left = test::histories_text(test::play_histories()); });
  right = test::histories_text(test::play_histories());
  other.join();
  CHECK(left == one);
  CHECK(right == one);
}
