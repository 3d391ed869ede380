#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

std::vector<ComputeAction> schedule_gpipe(std::uint32_t, std::uint32_t, std::uint32_t microbatches) {
  std::vector<ComputeAction> order;
  order.reserve(2 * std::size_t{microbatches});
  for (std::uint32_t m = 0; m < microbatches; ++m) order.push_back({ComputeAction::Phase::forward, m});
  for (std::uint32_t m = 0; m < microbatches; ++m) order.push_back({ComputeAction::Phase::backward, m});
  return order;
}

}  // namespace orrery::lowering
