#pragma once

#include <optional>
#include <string>

#include "core/plan/plan.hpp"
#include "framework/framework.hpp"

namespace orrery {

/// A plan as a TOML file of torchtitan v0.2.2, with the command that launches it as a comment. Stages are listed module
/// by module, so that any split of layers holds. A custom schedule stands in comments, as the lines of the CSV file
/// that the configuration names.
///
/// Requires a resolved plan that passes check(). Codes of what torchtitan cannot say: export.algorithm  export.context
/// export.experts  export.gradients  export.mesh-order  export.model  export.offload  export.optimizer
/// export.placement  export.precision  export.recompute  export.routing  export.schedule  export.sequence-parallel
/// export.tensor  export.zero
[[nodiscard]] std::optional<std::string> write_torchtitan(const PlannedRun&, Diagnostics&);

/// What torchtitan cannot train, the rules of a model (framework/framework.hpp), and whether ranks stand in its order.
void check_torchtitan_model(const ModelSpec&, const Workload&, Diagnostics&);
[[nodiscard]] std::vector<AbilityRule> torchtitan_rules(const ModelSpec&, const Workload&);
[[nodiscard]] bool torchtitan_order(const PlannedRun&);

/// Adds a diagnostic for each reason why torchtitan cannot launch the plan, and returns whether there is none.
[[nodiscard]] bool torchtitan_can_say(const PlannedRun&, Diagnostics&);

/// How often a layer is recomputed, one in so many, where that gives the plan's layers: 0 for none, 1 for all; empty
/// where torchtitan has no such choice.
[[nodiscard]] std::optional<std::uint32_t> recomputed_layers_are_every(const PlannedRun&);

}  // namespace orrery
