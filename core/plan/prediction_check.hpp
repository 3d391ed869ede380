#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Checks what plans cannot do with prediction modules, which the last stage trains beside the head.
///
/// Codes: plan.prediction-modules plan.prediction-tensor plan.prediction-sequence
/// plan.prediction-weight
void check_predictions(const Plan&, const ModelSpec&, const Workload&, Diagnostics& out);

}  // namespace orrery
