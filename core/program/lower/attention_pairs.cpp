#include <algorithm>
#include <array>

#include "core/program/lower/attention.hpp"
#include "core/program/sight.hpp"

namespace orrery::lowering {
namespace {

/// Positions of a rank of the context axis: one part of the sequence, or with zigzag the chunks r and 2 c - 1 - r of
/// 2 c.
std::array<Positions, 2> positions_of(const State& s, std::uint64_t rank) {
  const std::uint64_t n = s.positions, half = n / 2;
  if (!s.plan.zigzag) return {Positions{rank * n, (rank + 1) * n}, Positions{}};
  const std::uint64_t late = 2 * s.context - 1 - rank;
  return {Positions{rank * half, (rank + 1) * half}, Positions{late * half, (late + 1) * half}};
}

}  // namespace

void count_pairs(const State& s, Kernel& k, const std::function<std::uint32_t(std::uint32_t rank)>& holder) {
  const Sight sight = sight_of(k);
  std::uint64_t all = 0;
  k.columns = 0;
  for (std::uint32_t rank = 0; rank < s.context; ++rank) {
    std::uint64_t pairs = 0;
    for (const Positions& queries : positions_of(s, rank)) {
      if (holder == nullptr) {
        pairs += seen_pairs(sight, queries, {0, s.workload.sequence_length});
        continue;
      }
      for (const Positions& keys : positions_of(s, holder(rank))) pairs += seen_pairs(sight, queries, keys);
    }
    all += pairs;
    k.columns = std::max(k.columns, pairs);
  }
  k.parameter = static_cast<double>(all) / s.context;
}

}  // namespace orrery::lowering
