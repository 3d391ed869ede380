#include "forecast/run_hazards.hpp"

#include <cmath>

namespace orrery {
namespace {

constexpr double day = 86400.0;

template <class T>
T known_or(const KnownFigure<T>& figure, T otherwise) {
  return figure ? figure->value : otherwise;
}

}  // namespace

std::string_view name_of(LostTime why) {
  switch (why) {
    case LostTime::save: return "saves";
    case LostTime::lost_work: return "lost work";
    case LostTime::detection: return "detection";
    case LostTime::queue: return "queue";
    case LostTime::restart: return "restart";
    case LostTime::load: return "load";
    case LostTime::planned_stop: return "planned stops";
    case LostTime::slow: return "slower steps";
  }
  return "";
}

Seconds RunLedger::wall() const {
  Seconds sum = productive;
  for (const Seconds part : lost) sum += part;
  return sum;
}

std::optional<Seconds> RunHazards::mean() const {
  if (failures() <= 0.0) return std::nullopt;
  return Seconds::of(1.0 / failures());
}

RunHazards hazards_of(const ReliabilitySpec& r, std::uint64_t nodes, std::uint32_t gpus_per_node,
                      std::vector<std::string>& unknown) {
  RunHazards h;
  h.nodes = static_cast<double>(nodes);
  const double size = r.gpus_per_node ? static_cast<double>(gpus_per_node) / *r.gpus_per_node : 1.0;
  h.node_failures = h.nodes * size * known_or(r.node_failures_per_1000_node_days, 0.0) / (1000.0 * day);
  h.job_failures = known_or(r.job_failures_per_day, 0.0) / day;
  h.planned_stops = known_or(r.planned_stops_per_day, 0.0) / day +
                    h.nodes * size * known_or(r.planned_stops_per_1000_node_days, 0.0) / (1000.0 * day);
  double taken = 0.0, by_storage = 0.0;
  for (const NodeGroup& g : r.groups) {
    const double events = std::ceil(h.nodes / g.nodes) * g.events_per_1000_group_days.value / (1000.0 * day);
    h.group_failures += events;
    taken += events * std::fmin(g.nodes, h.nodes);
    if (r.host_copies && g.nodes > r.host_copies->value) by_storage += events;
  }
  if (h.group_failures > 0.0) h.group_nodes = taken / h.group_failures;
  h.shape = known_or(r.failure_shape, 1.0);
  if (r.slow_nodes_per_1000_node_days && r.slow_factor && r.slow_until_found) {
    h.slow_starts = h.nodes * size * r.slow_nodes_per_1000_node_days->value / (1000.0 * day);
    h.slow_factor = r.slow_factor->value;
    h.slow_until_found = r.slow_until_found->value;
  }
  if (!r.node_failures_per_1000_node_days) unknown.emplace_back("node_failures_per_1000_node_days");
  if (h.failures() > 0.0) {
    if (!r.detect) unknown.emplace_back("detect");
    if (!r.queue) unknown.emplace_back("queue");
    if (!r.restart) unknown.emplace_back("restart");
    if (r.host_copies) h.needs_storage = by_storage / h.failures();
  }
  if (h.planned_stops > 0.0 && !r.planned_stop) unknown.emplace_back("planned_stop");
  h.detect = known_or(r.detect, Seconds());
  h.queue = known_or(r.queue, Seconds());
  h.restart = known_or(r.restart, Seconds());
  h.planned_stop = known_or(r.planned_stop, Seconds());
  if (r.repair) h.repair = r.repair->value;
  if (r.spare_nodes) h.spares = r.spare_nodes->value;
  return h;
}

}  // namespace orrery
