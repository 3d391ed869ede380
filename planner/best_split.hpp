#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// How many layers each stage of a plan takes.
struct BestSplit {
  std::vector<std::uint32_t> layers;
  std::optional<Program> program;  ///< of the plan with them, where finding them took one
};

/// From the split whose busiest rank computes least on, first and last stage a layer longer or shorter as long as the
/// estimated step is shorter by a thousandth; first of all, that tensors fit. Requires a plan that is complete but for
/// its stages.
[[nodiscard]] BestSplit best_split(Plan, const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);

}  // namespace orrery
