#pragma once

#include "core/plan/plan.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Bytes that a layer's weights take on a rank where ZeRO-3 has gathered them whole, for the larger of two kinds of
/// layers. Chunks of this size (Plan::parameter_chunk) pad layers the least. Only the axes and the tensor algorithm of
/// the plan matter.
[[nodiscard]] Bytes whole_layer_bytes(const Plan&, const ModelSpec&, const Workload&);

}  // namespace orrery
