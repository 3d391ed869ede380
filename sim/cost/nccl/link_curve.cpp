#include "sim/cost/nccl/link_curve.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

Seconds on_links(const LinkCurve& c, Seconds t) {
  Seconds time = c.stretch * t;
  if (c.fill_time.base() > 0.0) time += -std::expm1(-(t / c.fill_time)) * c.fill;
  return std::max(c.floor, time);
}

}  // namespace orrery
