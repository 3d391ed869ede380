#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/program/op.hpp"

namespace orrery {

/// The sums that a member of a collective makes: results[i] = base + base2 + (chain[0] + chain[1] + ...), each left out
/// where null. Sums round to the type as a ring's do when they travel. Every result gets the same value.
struct ReductionShare {
  DType dtype = DType::f32;
  Collective::Reduction reduction = Collective::Reduction::sum;
  std::uint64_t count = 0;
  std::vector<const std::byte*> chain;
  const std::byte* base = nullptr;
  const std::byte* base2 = nullptr;
  std::vector<std::byte*> results;
};

}  // namespace orrery
