#include "sim/des/perturbation.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/diagnostics.hpp"
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

std::vector<double> slowdowns(const Perturbation& perturbation, std::uint32_t ranks) {
  const std::vector<bool> slow = slow_ranks(perturbation.stragglers, ranks);
  if (slow.empty() && perturbation.slow.empty()) return {};
  std::vector<double> out(ranks, 1.0);
  for (std::uint32_t r = 0; r < slow.size(); ++r) {
    if (slow[r]) out[r] = perturbation.stragglers->factor;
  }
  for (const SlowRank& s : perturbation.slow) {
    ORRERY_ASSERT(index(s.rank) < ranks && s.factor >= 1.0, index(s.rank), s.factor);
    out[index(s.rank)] *= s.factor;
  }
  return out;
}

std::vector<std::uint64_t> rank_labels(const Perturbation& perturbation, const Prices& prices, std::uint32_t ranks) {
  std::vector<std::uint64_t> out;
  for (const double factor : slowdowns(perturbation, ranks)) out.push_back(std::bit_cast<std::uint64_t>(factor));
  if (prices.kinds == 1) return out;
  if (out.empty()) out.assign(ranks, 0);
  for (std::uint32_t r = 0; r < ranks; ++r) out[r] = mix(out[r] + prices.kind_of(Rank{r}));
  return out;
}

}  // namespace orrery
