#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery {

/// One plan to predict and to run.
struct PredictionCase {
  std::string name;
  PlannedRun run;  ///< checked, resolved, without cluster
};

/// Plans of one and two ranks, then plans of four to eight ranks: both model
/// families, all precisions, each kind of parallelism alone and together.
[[nodiscard]] std::vector<PredictionCase> prediction_cases();

}  // namespace orrery
