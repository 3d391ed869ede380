#pragma once

#include "core/plan/plan.hpp"

namespace orrery {

/// The modules that layers of the model have, so that a plan may recompute them: core_attn of all; layernorm where
/// norms stand in front of branches; mlp where a dense feed-forward part is a branch of its own; moe and moe_act of
/// mixtures; shared_experts where these have some; mla_up_proj of latent attention.
[[nodiscard]] RecomputeModules recompute_modules_of(const ModelSpec&);
/// Whether the plan recomputes the attention core: its scores, which the flash kernel never keeps.
[[nodiscard]] bool recomputes_scores(const Plan&);
/// Sets what is recomputed; modules go back to their default.
void set_recompute(Plan&, Recompute);

}  // namespace orrery
