#include "sim/cost/point_to_point_cost.hpp"

namespace orrery {

Seconds message_time(Bytes bytes, const LinkCost& link) { return link.latency + bytes / link.bandwidth; }

}  // namespace orrery
