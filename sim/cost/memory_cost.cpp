#include "sim/cost/memory_cost.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

Seconds memory_time(Bytes touched, Bandwidth bandwidth, double efficiency) {
  ORRERY_ASSERT(efficiency > 0 && efficiency <= 1, efficiency);
  return touched / (efficiency * bandwidth);
}

}  // namespace orrery
