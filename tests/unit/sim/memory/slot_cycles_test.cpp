#include "sim/memory/slot_cycles.hpp"

#include <catch2/catch.hpp>

namespace orrery {
namespace {

/// In the texts, "F3" and "B1" are blocks 0 and 1 of a microbatch, all at layer 0.
std::vector<Slot> slots(std::initializer_list<std::pair<char, std::uint32_t>> list) {
  std::vector<Slot> out;
  for (const auto& [block, microbatch] : list) {
    Slot s;
    s.block = static_cast<BlockId>(block == 'F' ? 0U : 1U);
    s.microbatch = microbatch;
    out.push_back(s);
  }
  return out;
}

}  // namespace

TEST_CASE("lists that are too short repeat nothing", "[unit][memory]") {
  CHECK(slot_cycles({}).empty());
  CHECK(slot_cycles(slots({{'F', 0}})).empty());
  CHECK(slot_cycles(slots({{'F', 0}, {'B', 0}, {'F', 1}, {'B', 1}})).empty());
}

// F0 F1 | F2 B0 F3 B1 F4 B2 F5 B3 | B4 B5: from F2 on pairs come, and B3 B4 B5 breaks off what F would follow.
TEST_CASE("forward and backward passes in turn are a cycle of two slots", "[unit][memory]") {
  const auto found = slot_cycles(slots({{'F', 0},
                                        {'F', 1},
                                        {'F', 2},
                                        {'B', 0},
                                        {'F', 3},
                                        {'B', 1},
                                        {'F', 4},
                                        {'B', 2},
                                        {'F', 5},
                                        {'B', 3},
                                        {'B', 4},
                                        {'B', 5}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0] == SlotCycle{2, 10, 2, 1});
}

// Here backward passes of the last microbatch come first.
TEST_CASE("microbatches may count down", "[unit][memory]") {
  const auto found = slot_cycles(slots({{'B', 5}, {'B', 4}, {'B', 3}, {'B', 2}, {'B', 1}, {'B', 0}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0] == SlotCycle{0, 6, 1, -1});
}

// Groups of two microbatches, both chunks of a rank: 0a 1a 0b 1b 2a 3a 2b 3b ...; a period is four slots and two
// microbatches.
TEST_CASE("interleaved chunks repeat themselves by groups of microbatches", "[unit][memory]") {
  std::vector<Slot> list;
  for (std::uint32_t group = 0; group < 6; ++group) {
    for (const std::uint32_t chunk : {0U, 1U}) {
      for (const std::uint32_t i : {0U, 1U}) {
        Slot s;
        s.layer = 4 * chunk;
        s.microbatch = 2 * group + i;
        list.push_back(s);
      }
    }
  }
  const auto found = slot_cycles(list);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == SlotCycle{0, 24, 4, 2});
}

}  // namespace orrery
