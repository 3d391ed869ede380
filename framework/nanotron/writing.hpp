#pragma once

#include <optional>
#include <string>

#include "core/plan/plan.hpp"

namespace orrery {

/// A plan as a YAML file of nanotron (huggingface/nanotron@2411b022), with the command that launches it as a comment.
/// The model is written as a Qwen2 one, which covers LLaMA's family too. Data is what nanotron makes up; buckets of
/// gradients are rounded to MiB.
///
/// Requires a resolved plan that passes check(). Codes of what nanotron cannot say: export.algorithm  export.context
/// export.gradients  export.layers  export.mesh-order  export.model  export.offload  export.optimizer
/// export.placement  export.precision  export.recompute  export.schedule  export.tensor  export.zero
[[nodiscard]] std::optional<std::string> write_nanotron(const PlannedRun&, Diagnostics&);

/// What nanotron cannot train (Framework::check_model).
void check_nanotron_model(const ModelSpec&, const Workload&, Diagnostics&);
/// Whether ranks stand in its order; whether layers are split over stages as it splits them; and the split where a plan
/// leaves it open.
[[nodiscard]] bool nanotron_order(const PlannedRun&);
[[nodiscard]] bool nanotron_stages(const PlannedRun&);
void close_nanotron_stages(PlannedRun&);

/// Adds a diagnostic for each reason why nanotron cannot launch the plan, and returns whether there is none.
[[nodiscard]] bool nanotron_can_say(const PlannedRun&, Diagnostics&);

}  // namespace orrery
