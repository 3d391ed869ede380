#include "sim/cost/point_to_point_cost.hpp"

namespace orrery {

Bandwidth bandwidth_at(const LinkCost& link, Bytes message) {
  return link.rates.values.empty() ? link.bandwidth : Bandwidth::of(interpolate(link.rates, message.in(byte)));
}

Seconds message_time(Bytes bytes, const LinkCost& link) { return link.latency + bytes / bandwidth_at(link, bytes); }

}  // namespace orrery
