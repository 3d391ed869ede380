#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// One launch flag; switches have no value.
struct LaunchFlag {
  std::string name;  ///< "--tensor-model-parallel-size"
  std::string value;
  friend bool operator==(const LaunchFlag&, const LaunchFlag&) = default;
};

/// A plan as launch flags of Megatron-LM's pretrain_gpt.py (read at its commit
/// d98e8a64): mesh, schedule, batch, recomputation, kernels, precision, model
/// and optimizer.  Data-parallel size has no flag; the launcher's world size
/// gives it.  Data, tokenizer, checkpoints and the number of steps are no part
/// of a plan and left to the user.
///
/// Requires a resolved plan that passes check().  Refuses, with one diagnostic
/// for each reason, what the flags cannot say:
///   export.schedule    GPipe: the target runs 1F1B
///   export.mesh-order  orders other than tensor innermost with data, then
///                      pipeline (or pipeline, then data) outside it
///   export.placement   ranks on devices of one's own choice
///   export.algorithm   an override of the collective algorithm
///   export.precision   fp64
///   export.layers      kinds of layers that have no flag, or that this does not know
///   export.optimizer   SGD with decoupled weight decay; ZeRO-1 with SGD
[[nodiscard]] std::optional<std::vector<LaunchFlag>> megatron_flags(const PlannedRun&, Diagnostics&);

/// The flags as shell text: one per line, joined by backslashes, after a
/// comment that names the plan and the world size.
[[nodiscard]] std::string megatron_text(const PlannedRun&, const std::vector<LaunchFlag>&);

}  // namespace orrery
