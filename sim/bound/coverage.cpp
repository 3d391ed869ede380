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

bool bound_covers(const ModelSpec& m) {
  // Dense layers only below all mixtures.
  const bool below = !m.mixture || (m.mixture->every == 1 && m.mixture->dense.empty());
  return m.architecture == Architecture::decoder && m.prediction_modules == 0 && below;
}

bool bound_covers(const Plan& plan) {
  const Plan plain;
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
  // Reductions behind each part of a split pass, or of both pipes.
  const bool cuts = plan.zero_stage >= 2 && !shard_axes_of(plan).empty();
  if (cuts && (splits_backward(plan) || stage_map(plan).two_way())) return false;
  return plan.inner_ring == 0 && plan.context != ContextAlgorithm::ring_self_attention &&
         plan.offload_states == plain.offload_states && plan.offload_parameters == plain.offload_parameters &&
         plan.offload_activations == plain.offload_activations && plan.parameter_chunk == plain.parameter_chunk;
}

bool bound_covers(const Plan& plan, const ModelSpec& model) {
  const bool ahead = plan.zero_stage == 3 && !shard_axes_of(plan).empty() && plan.prefetch > 0;
  return bound_covers(model) && bound_covers(plan) && !(ahead && mixes_kinds(model));
}

}  // namespace orrery
