#include "sim/bound/coverage.hpp"

#include <algorithm>

#include "core/plan/schedule_rules.hpp"

namespace orrery {

bool is_plain(const Plan& plan) {
  return plan.chunks == 1 && (plan.schedule == ScheduleName::gpipe || plan.schedule == ScheduleName::one_f_one_b);
}

bool memory_is_exact(const Plan& plan) {
  return is_plain(plan) && (plan.zero_stage <= 1 || shard_axes_of(plan).empty());
}

bool memory_is_exact(const Plan& plan, const Workload& workload) {
  return memory_is_exact(plan) && !has_factored_moments(workload);
}

bool bound_covers_offload(const ModelSpec& m, const Workload& w) {
  const bool one_kind = m.architecture == Architecture::decoder && m.prediction_modules == 0 && !mixes_kinds(m);
  return one_kind && !has_trust_ratio(w) && !has_factored_moments(w);
}

bool bound_covers(const Plan& plan, const ModelSpec& model, const Workload& workload) {
  const bool on_device = !(plan.offload_states > 0U || plan.offload_parameters > 0U || plan.offload_activations > 0U);
  const bool shares = !shard_axes_of(plan).empty();
  if (shares && plan.zero_stage == 3 && plan.prefetch > 0 && mixes_kinds(model)) return false;
  if (model.prediction_modules > 0 && ((shares && plan.zero_stage >= 2) || stage_map(plan).two_way())) return false;
  return bound_covers(plan) && (on_device || bound_covers_offload(model, workload));
}

bool bound_covers(const Plan& plan) {
  switch (plan.schedule) {
    case ScheduleName::gpipe:
    case ScheduleName::one_f_one_b:
    case ScheduleName::eager_one_f_one_b:
    case ScheduleName::interleaved:
    case ScheduleName::breadth_first:
    case ScheduleName::zb_h1:
    case ScheduleName::zb_h2:
    case ScheduleName::zb_v:
    case ScheduleName::v_half:
    case ScheduleName::v_min:
    case ScheduleName::dualpipe_v:
    case ScheduleName::chimera:
    case ScheduleName::dualpipe: break;
    case ScheduleName::custom: return false;
  }
  const bool rings = plan.inner_ring != 0 || plan.context == ContextAlgorithm::ring_self_attention;
  const bool copies = plan.offload_activations > 0U;
  return !(copies && rings);
}

}  // namespace orrery
