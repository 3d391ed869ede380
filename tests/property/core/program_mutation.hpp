#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/program/program.hpp"

// Changes to a Program that a verifier has to judge.

namespace orrery {

/// One op with everything that belongs to it alone.
struct Item {
  Op op;
  std::vector<View> views;
  std::vector<Wait> waits;
  std::vector<Transfer> transfers;
  std::uint32_t from = 0;  ///< its number before the change
};

[[nodiscard]] std::vector<Item> items_of(const Block&);

/// The block with other items. Waits follow the ops that they name, and go where an op is gone.
void assemble(Block&, const std::vector<Item>&);

/// Changes the Program in one place. Returns how, or nothing when it could not.
std::string mutate(Program&, std::mt19937_64&);

}  // namespace orrery
