#include "core/base/nearest.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("the distance of two words counts single edits", "[unit][nearest]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("heads", "head") == 1);     // one letter less
  CHECK(edit_distance("tensor", "tensro") == 1);  // neighbours swapped
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance(std::string(1000, 'a'), std::string(1000, 'b')) == 64);  // only the first 64 are read
}

TEST_CASE("near names come first and far ones not at all", "[unit][nearest]") {
  CHECK(nearest("heds", {"layers", "heads", "hidden"}) == std::vector<std::string>{"heads"});
  CHECK(nearest("llama", {"llama-3-8b", "llama-2-7b", "gpt2"}) == std::vector<std::string>{"llama-2-7b", "llama-3-8b"});
  CHECK(nearest("zzz", {"heads"}).empty());
  CHECK(nearest("a", {}).empty());
}

TEST_CASE("separators and capitals do not make names differ", "[unit][nearest]") {
  CHECK(nearest("gpt-3", {"gpt2-124m", "gpt3-175b", "llama-3-8b"}, 1) == std::vector<std::string>{"gpt3-175b"});
  CHECK(nearest("Llama3_8B", {"llama-2-7b", "llama-3-70b", "llama-3-8b"}, 1) == std::vector<std::string>{"llama-3-8b"});
  CHECK(nearest("zero_stage", {"zero-stage"}) == std::vector<std::string>{"zero-stage"});
}
