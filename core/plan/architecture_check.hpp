#pragma once

#include "core/plan/plan.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Checks what a plan cannot do with the model's architecture: parts that nothing lowers, and choices that hold for
/// causal decoders alone.
///
/// Codes: plan.architecture-tensor plan.architecture-context plan.image-sequence
/// plan.tensor-patch plan.image-data plan.prediction-modules
void check_architecture(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
