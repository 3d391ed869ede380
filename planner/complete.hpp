#pragma once

#include "core/plan/plan.hpp"

namespace orrery {

/// Puts a value in place of every `auto` of a valid plan that follows from the plan, the model and the workload alone:
///
///   gradient_bucket    default_gradient_bucket (planner/gradient_bucket.hpp)
///   overlap_gradients  on where ranks have gradients to sum
///   attention          flash; unfused where ring self-attention or selective recomputation asks for scores
///   stage_layers       balanced_stages
///   parameter_chunk    a chunk for each layer
///
/// What is offloaded stays as it is: how much of it depends on the cluster (planner/resolve.hpp).
void complete(Plan&, const ModelSpec&, const Workload&);

/// The split of layers whose busiest pipeline rank has the fewest multiply-adds, the head's counted; of equals the most
/// even one, larger stages first.  A rank has what its stages have, wherever the schedule puts them.
[[nodiscard]] std::vector<std::uint32_t> balanced_stages(const Plan&, const ModelSpec&, const Workload&);

/// How many layers the head's multiply-adds weigh, with those of prediction modules.
[[nodiscard]] double head_in_layers(const ModelSpec&, const Workload&);

}  // namespace orrery
