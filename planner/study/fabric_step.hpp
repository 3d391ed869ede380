#pragma once

#include <string>

#include "planner/study/priced_plan.hpp"
#include "sim/des/simulate.hpp"

namespace orrery {

// What studies of the network share: a plan's step over links that its messages share.

/// A shipped fabric.  Throws Error.
[[nodiscard]] FabricSpec study_fabric(const Library&, const std::string& name);

/// The plan's step, simulated over the fabric; checks as priced() does.  Throws Error.
struct FabricStep {
  PricedPlan plan;  ///< its report is the estimate: every link to itself
  Simulation simulation;
  [[nodiscard]] Seconds time() const { return simulation.report.step_time; }
};
[[nodiscard]] FabricStep step_over(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&, Plan,
                                   const Fabric&, PathRule = PathRule::by_destination, std::uint64_t seed = 0);

/// Bytes on all links of a step between two switches of the network, one of which no NIC hangs on: "spine".
[[nodiscard]] Bytes carried_by(const Fabric&, const Simulation&, const std::string& vertex);

}  // namespace orrery
