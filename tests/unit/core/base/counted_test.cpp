#include "core/base/counted.hpp"

#include <catch2/catch.hpp>

using orrery::counted;

TEST_CASE("only the number 1 has the noun in the singular", "[unit][base]") {
  CHECK(counted(0, "layer") == "0 layers");
  CHECK(counted(1, "layer") == "1 layer");
  CHECK(counted(21, "layer") == "21 layers");
  CHECK(counted(1, "entry", "entries") == "1 entry");
  CHECK(counted(2, "entry", "entries") == "2 entries");
}
