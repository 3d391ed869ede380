#include "sim/des/perturbation.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/random.hpp"

namespace orrery {

std::vector<bool> slow_ranks(const std::optional<Stragglers>& stragglers, std::uint32_t ranks) {
  if (!stragglers || stragglers->count == 0) return {};
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0U);
  const auto key = [&](std::uint32_t r) { return random_bits(stragglers->seed, stream_of("stragglers"), r); };
  const std::uint32_t count = std::min(stragglers->count, ranks);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::uint32_t a, std::uint32_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  std::vector<bool> slow(ranks, false);
  for (std::uint32_t i = 0; i < count; ++i) slow[order[i]] = true;
  return slow;
}

}  // namespace orrery
