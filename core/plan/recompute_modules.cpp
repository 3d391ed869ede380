#include "core/plan/recompute_modules.hpp"

namespace orrery {

RecomputeModules recompute_modules_of(const ModelSpec& m) {
  using enum RecomputeModule;
  const bool dense = mixture_count(m) < m.layers;
  unsigned set = set_of(core_attn);
  if (m.architecture != Architecture::bert && m.branch_norms != BranchNorms::after) set |= set_of(layernorm);
  if (dense && m.parallel == ParallelBranches::none) set |= set_of(mlp);
  if (m.mixture) set |= set_of(moe) | set_of(moe_act);
  if (m.mixture && m.mixture->shared_ffn > 0) set |= set_of(shared_experts);
  if (m.latent) set |= set_of(mla_up_proj);
  return static_cast<RecomputeModules>(set);
}

bool recomputes_scores(const Plan& plan) {
  return plan.recompute == Recompute::selective && has_module(plan.recompute_modules, RecomputeModule::core_attn);
}

void set_recompute(Plan& plan, Recompute recompute) {
  plan.recompute = recompute;
  plan.recompute_modules = Plan{}.recompute_modules;
}

}  // namespace orrery
