#include "sim/cost/point_to_point_cost.hpp"

#include <fmt/format.h>

#include "core/base/units_text.hpp"

namespace orrery {

Bandwidth bandwidth_at(const LinkCost& link, Bytes message, Derivation* why) {
  const Bandwidth rate =
      link.rates.values.empty() ? link.bandwidth : Bandwidth::of(interpolate(link.rates, message.in(byte)));
  if (why != nullptr) {
    const double share = link.efficiency / link.slower / link.pairs;
    why->given("efficiency", link.efficiency, NumberSource::calibration,
               fmt::format("level_efficiency of level {}", link.level));
    why->given("slowdown by the program", link.slower, link.level == 0 ? NumberSource::formula : NumberSource::software,
               link.level == 0 ? "1 inside a node" : "network");
    why->given("pairs", link.pairs, NumberSource::calibration, "nccl pairs");
    why->made(NumberBy::quotient, 3, "share of the link", share);
    why->given("bandwidth", rate / share, NumberSource::cluster,
               fmt::format("levels[{}].{}", link.level,
                           link.rates.values.empty() ? "bandwidth" : "rates at messages of " + short_text(message)));
    why->made(NumberBy::product, 2, "rate", rate);
  }
  return rate;
}

void tell_latency(Derivation& why, const LinkCost& link) {
  why.given("latency", link.latency, NumberSource::cluster, fmt::format("levels[{}].latency", link.level));
}

Seconds message_time(Bytes bytes, const LinkCost& link, Derivation* why) {
  if (why != nullptr) {
    tell_latency(*why, link);
    why->given("bytes", bytes, NumberSource::program);
  }
  const Bandwidth rate = bandwidth_at(link, bytes, why);
  if (why != nullptr) {
    why->made(NumberBy::quotient, 2, "moving", bytes / rate);
    why->made(NumberBy::sum, 2, "message", link.latency + bytes / rate, "Hockney, Parallel Computing 20(3), 1994");
  }
  return link.latency + bytes / rate;
}

}  // namespace orrery
