#include <algorithm>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

std::vector<Action> schedule_1f1b(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches) {
  const std::uint32_t ahead = std::min(microbatches, stages - 1 - stage);
  std::vector<Action> order;
  order.reserve(2 * std::size_t{microbatches});
  for (std::uint32_t m = 0; m < ahead; ++m) order.push_back({Phase::forward, 0, m});
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    if (ahead + m < microbatches) order.push_back({Phase::forward, 0, ahead + m});
    order.push_back({Phase::backward, 0, m});
  }
  return order;
}

}  // namespace orrery::lowering
