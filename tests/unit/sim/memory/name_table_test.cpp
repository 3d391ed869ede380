#include "sim/memory/name_table.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <random>

namespace orrery {

// Compares with std::map, with names like those of tensors: few bits, far apart.
TEST_CASE("a name is found until it is taken", "[property][memory]") {
  const unsigned seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  NameTable table;
  std::map<std::uint64_t, std::uint32_t> oracle;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const std::uint64_t name = random() % 6 << 44U | random() % 20 << 24U | random() % 40;
    const auto known = oracle.find(name);
    REQUIRE(table.find(name) == (known == oracle.end() ? NameTable::none : known->second));
    if (known != oracle.end()) {
      REQUIRE(table.take(name) == known->second);
      oracle.erase(known);
    } else if (random() % 4 != 0) {
      table.insert(name, i);
      oracle.emplace(name, i);
    } else {
      REQUIRE(table.take(name) == NameTable::none);
    }
  }
  for (const auto& [name, number] : oracle) REQUIRE(table.find(name) == number);
  table.clear();
  for (const auto& [name, number] : oracle) REQUIRE(table.find(name) == NameTable::none);
}

}  // namespace orrery
