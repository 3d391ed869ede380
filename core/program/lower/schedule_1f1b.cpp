#include <algorithm>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

/// One forward, one backward, after rank i has run `lead` (p - 1 - i) forwards.
Orders one_forward_one_backward(const PipelineShape& shape, std::uint32_t lead) {
  Orders orders(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const std::uint32_t ahead = std::min(shape.microbatches, lead * (shape.ranks - 1 - rank));
    std::vector<Action>& order = orders[rank];
    order.reserve(2 * std::size_t{shape.microbatches});
    for (std::uint32_t m = 0; m < ahead; ++m) order.push_back({Phase::forward, 0, m});
    for (std::uint32_t m = 0; m < shape.microbatches; ++m) {
      if (ahead + m < shape.microbatches) order.push_back({Phase::forward, 0, ahead + m});
      order.push_back({Phase::backward, 0, m});
    }
  }
  return orders;
}

}  // namespace

Orders schedule_1f1b(const PipelineShape& shape) { return one_forward_one_backward(shape, 1); }
Orders schedule_eager_1f1b(const PipelineShape& shape) { return one_forward_one_backward(shape, 2); }

}  // namespace orrery::lowering
