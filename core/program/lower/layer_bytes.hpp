#pragma once

#include "core/plan/plan.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// What a layer's weights take on a rank where ZeRO-3 has gathered them whole, the larger of two kinds: chunks of so
/// much (Plan::parameter_chunk) pad layers the least.  Of the plan matter the axes and the tensor algorithm.
[[nodiscard]] Bytes whole_layer_bytes(const Plan&, const ModelSpec&, const Workload&);

}  // namespace orrery
