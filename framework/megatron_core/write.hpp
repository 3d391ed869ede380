#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "framework/framework.hpp"

namespace orrery {

/// One launch flag; switches have no value.
struct LaunchFlag {
  std::string name;  ///< "--tensor-model-parallel-size"
  std::string value;
  friend bool operator==(const LaunchFlag&, const LaunchFlag&) = default;
};

/// A plan as launch flags of Megatron-LM's pretrain_gpt.py (read at NVIDIA/Megatron-LM@d98e8a64): mesh, schedule,
/// batch, recomputation, kernels, precision, model and optimizer. The data-parallel size has no flag; the launcher's
/// world size gives it. Data, tokenizer, checkpoints and the number of steps are no part of a plan and left to the
/// user. Which experts tokens visit is not said either.
///
/// Requires a resolved plan that passes check(). Refuses, with one diagnostic for each reason, what the flags cannot
/// say:
///   export.schedule      others than 1F1B and its interleaved form
///   export.mesh-order    orders other than pipeline, replica, data, expert, context, tensor, outermost first, with
///                        pipeline inside data or outside replica
///   export.placement     ranks on devices of one's own choice
///   export.algorithm     an override of the collective algorithm
///   export.tensor        grids
///   export.context       rings of scores, double rings, or parts of the sequence that are not balanced
///   export.mixture       expert ranks beside context ranks, or beside tensor ranks without sequence parallelism
///   export.zero          ZeRO-2 and 3 with what Megatron-FSDP does not have
///   export.replica       copies of states that are not sharded
///   export.offload       parameters or activations in host memory, states on disk, or states of another optimizer
///   export.recompute-layers  layers that are recomputed in some stages only
///   export.precision     fp64
///   export.architecture  encoders, and models that are only counted
///   export.layers        kinds of layers that have no flag, or that this does not know
///   export.optimizer     SGD with decoupled weight decay; ZeRO with SGD; other optimizers
[[nodiscard]] std::optional<std::vector<LaunchFlag>> megatron_flags(const PlannedRun&, Diagnostics&);

/// What Megatron-LM cannot train: what the flags of the model, the precision and the optimizer refuse. The rules of a
/// workload (framework/framework.hpp), and whether ranks stand in one of its orders.
void check_megatron_model(const ModelSpec&, const Workload&, Diagnostics&);
[[nodiscard]] std::vector<AbilityRule> megatron_rules(const ModelSpec&, const Workload&);
[[nodiscard]] bool megatron_order(const PlannedRun&);

/// The flags as shell text: one per line, joined by backslashes, after a comment that names the plan and the world
/// size.
[[nodiscard]] std::string megatron_text(const PlannedRun&, const std::vector<LaunchFlag>&);

/// A script that launches the plan with torchrun; empty where the flags cannot say it. Data, tokenizer and the number
/// of steps stand in it as they suit a trial, and are to be replaced.
[[nodiscard]] std::optional<std::string> write_megatron_script(const PlannedRun&, Diagnostics&);

/// The same for Megatron-Bridge: torchrun with a recipe's name, which is to be replaced, and the plan as overrides.
[[nodiscard]] std::optional<std::string> write_megatron_bridge(const PlannedRun&, Diagnostics&);

}  // namespace orrery
