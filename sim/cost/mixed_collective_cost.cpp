#include "sim/cost/mixed_collective_cost.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

const Calibration& calibration_of(const Calibration& calibration, std::uint32_t kind) {
  ORRERY_ASSERT(kind <= calibration.others.size(), kind, calibration.others.size());
  return kind == 0 ? calibration : calibration.others[kind - 1];
}

MixedCollectiveCost::MixedCollectiveCost(const ClusterSpec& cluster, const Calibration& calibration,
                                         bool more_ranks_than_cores) {
  const std::uint32_t kinds = node_kinds(cluster);
  if (kinds == 1) {
    of_.push_back({CollectiveCost(cluster, calibration, more_ranks_than_cores)});
    return;
  }
  of_.resize(std::size_t{1} << kinds);
  for (std::size_t set = 0; set < of_.size(); ++set) {
    for (std::uint32_t k = 0; k < kinds; ++k) {
      if (set != 0 && (set >> k & 1U) == 0) continue;
      of_[set].emplace_back(equal_nodes(cluster, k, static_cast<NodeKinds>(set)), calibration_of(calibration, k),
                            more_ranks_than_cores);
    }
  }
}

MixedCollectiveCost::Choice MixedCollectiveCost::choose(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                                        std::optional<CollectiveAlgorithm> algorithm,
                                                        Derivation* why) const {
  const std::vector<CollectiveCost>& costs = of_[shape.kinds];
  if (costs.size() == 1) return costs.front().choose(kind, payload, shape, algorithm, why);
  const CollectiveCost* decides = nullptr;
  Choice out;
  for (const CollectiveCost& c : costs) {
    const Choice choice = c.choose(kind, payload, shape, algorithm);
    if (decides != nullptr && !(shape.kinds == 0 ? choice.time < out.time : out.time < choice.time)) continue;
    decides = &c;
    out = choice;
  }
  return why == nullptr ? out : decides->choose(kind, payload, shape, algorithm, why);
}

Seconds MixedCollectiveCost::message(Bytes bytes, std::size_t level, NodeKinds kinds, Derivation* why) const {
  const std::vector<CollectiveCost>& costs = of_[kinds];
  if (costs.size() == 1) return costs.front().message(bytes, level, why);
  const CollectiveCost* decides = nullptr;
  Seconds out;
  for (const CollectiveCost& c : costs) {
    const Seconds time = c.message(bytes, level);
    if (decides != nullptr && !(kinds == 0 ? time < out : out < time)) continue;
    decides = &c;
    out = time;
  }
  return why == nullptr ? out : decides->message(bytes, level, why);
}

double MixedCollectiveCost::reach(std::size_t level) const {
  double most = 0.0;
  for (const CollectiveCost& c : of_.front()) most = std::max(most, c.reach(level));
  return most;
}

}  // namespace orrery
