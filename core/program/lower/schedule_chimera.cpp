#include <algorithm>
#include <utility>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

/// In slots of one forward or backward, p ranks, unit u of p microbatches, the
/// j-th of p / 2 in each pipe:
///
///     rank r:  forward  of pipe 0 at r + 2 j           of pipe 1 at p - 1 - r + 2 j
///              backward of pipe 1 at p + r + 2 j       of pipe 0 at 2 p - 1 - r + 2 j     (all + 2 p u)
///
/// No two of them share a slot of a rank, those of the next units included.
Orders schedule_chimera(const PipelineShape& shape) {
  const std::uint32_t p = shape.ranks, half = p / 2, units = shape.microbatches / p;
  Orders orders(p);
  std::vector<std::pair<std::uint32_t, Action>> slots;
  for (std::uint32_t r = 0; r < p; ++r) {
    slots.clear();
    for (std::uint32_t u = 0; u < units; ++u) {
      for (std::uint32_t j = 0; j < half; ++j) {
        const std::uint32_t at = 2 * p * u + 2 * j, first = u * half + j, second = shape.microbatches / 2 + first;
        slots.push_back({at + r, {Phase::forward, 0, first}});
        slots.push_back({at + p - 1 - r, {Phase::forward, 1, second}});
        slots.push_back({at + p + r, {Phase::backward, 1, second}});
        slots.push_back({at + 2 * p - 1 - r, {Phase::backward, 0, first}});
      }
    }
    std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [slot, action] : slots) orders[r].push_back(action);
  }
  return orders;
}

}  // namespace orrery::lowering
