#include <algorithm>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

/// Rank i runs `lead` (p - 1 - i) forwards ahead and keeps `lead` i weight gradients for the end.
Orders zero_bubble(const PipelineShape& shape, std::uint32_t lead) {
  const std::uint32_t m = shape.microbatches;
  Orders orders(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& order = orders[rank];
    order.reserve(3 * std::size_t{m});
    std::uint32_t forwards = std::min(m, lead * (shape.ranks - 1 - rank)), weights = 0;
    for (std::uint32_t j = 0; j < forwards; ++j) order.push_back({Phase::forward, 0, j});
    for (std::uint32_t j = 0; j < m; ++j) {
      if (forwards < m) order.push_back({Phase::forward, 0, forwards++});
      order.push_back({Phase::backward, 0, j});
      if (j + 1 - weights > lead * rank) order.push_back({Phase::weight, 0, weights++});
    }
    while (weights < m) order.push_back({Phase::weight, 0, weights++});
  }
  return orders;
}

}  // namespace

Orders schedule_zb_h1(const PipelineShape& shape) { return zero_bubble(shape, 1); }
Orders schedule_zb_h2(const PipelineShape& shape) { return zero_bubble(shape, 2); }

}  // namespace orrery::lowering
