#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

Orders schedule_breadth_first(const PipelineShape& shape) {
  std::vector<Action> order;
  order.reserve(2 * std::size_t{shape.microbatches} * shape.chunks);
  for (std::uint32_t c = 0; c < shape.chunks; ++c) {
    for (std::uint32_t m = 0; m < shape.microbatches; ++m) order.push_back({Phase::forward, c, m});
  }
  for (std::uint32_t c = shape.chunks; c-- > 0;) {
    for (std::uint32_t m = 0; m < shape.microbatches; ++m) order.push_back({Phase::backward, c, m});
  }
  return Orders(shape.ranks, order);
}

}  // namespace orrery::lowering
