#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

std::vector<Action> schedule_gpipe(std::uint32_t, std::uint32_t, std::uint32_t microbatches) {
  std::vector<Action> order;
  order.reserve(2 * std::size_t{microbatches});
  for (std::uint32_t m = 0; m < microbatches; ++m) order.push_back({Phase::forward, 0, m});
  for (std::uint32_t m = 0; m < microbatches; ++m) order.push_back({Phase::backward, 0, m});
  return order;
}

}  // namespace orrery::lowering
