#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

Orders schedule_gpipe(const PipelineShape& shape) {
  std::vector<Action> order;
  order.reserve(2 * std::size_t{shape.microbatches});
  for (std::uint32_t m = 0; m < shape.microbatches; ++m) order.push_back({Phase::forward, 0, m});
  for (std::uint32_t m = 0; m < shape.microbatches; ++m) order.push_back({Phase::backward, 0, m});
  return Orders(shape.ranks, order);
}

}  // namespace orrery::lowering
