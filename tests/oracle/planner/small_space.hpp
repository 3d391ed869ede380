#pragma once

#include <cstdint>
#include <string>

#include "core/plan/limits.hpp"
#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "tests/oracle/planner/every_plan.hpp"

namespace orrery::test {

/// A model, a workload and a cluster with so few plans that a test can look at all of them.
struct SmallSpace {
  PlannedRun run;           ///< without a plan
  Calibration calibration;  ///< some have the process's memory beside its tensors
  SearchLimits limits;
  Extent extent;
  std::string text;  ///< all of it, for a person
};

/// Dense and mixture models, latent attention, encoders and vision; 1 to 16 GPUs; devices and hosts with more or less
/// than enough memory. Dimensions are limited, as people limit them, until there are at most some thousand plans. Equal
/// for equal seeds.
[[nodiscard]] SmallSpace draw_space(std::uint64_t seed);

}  // namespace orrery::test
