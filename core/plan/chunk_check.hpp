#pragma once

#include <cstdint>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Elements of the largest parameter tensor of any layer on one rank; all experts of a mixture on the rank count as one
/// tensor.
[[nodiscard]] std::uint64_t largest_layer_tensor(const Plan&, const ModelSpec&);

/// The rules of chunked parameters (Plan::parameter_chunk), a part of check().
/// Requires sizes that are in range.
void check_parameter_chunk(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
