#include "sim/bound/coverage.hpp"

#include <algorithm>

namespace orrery {

bool is_plain(const Plan& plan) {
  return plan.chunks == 1 && (plan.schedule == ScheduleName::gpipe || plan.schedule == ScheduleName::one_f_one_b);
}

bool memory_is_exact(const Plan& plan) {
  return is_plain(plan) && (plan.zero_stage <= 1 || plan.mesh.size(Axis::data) == 1);
}

bool bound_covers(const ModelSpec& m) {
  return m.architecture == Architecture::decoder && !m.latent && m.prediction_modules == 0;
}

bool bound_covers(const Plan& plan) {
  const auto known = [](const MeshAxis& a) { return a.size == 1 || a.axis != Axis::expert; };
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
  return std::all_of(plan.mesh.axes.begin(), plan.mesh.axes.end(), known) && plan.inner_ring == 0 &&
         plan.context != ContextAlgorithm::ring_self_attention && !plan.recompute_layers &&
         plan.offload_states == plain.offload_states && plan.offload_parameters == plain.offload_parameters &&
         plan.offload_activations == plain.offload_activations && plan.parameter_chunk == plain.parameter_chunk;
}

bool bound_covers(const Plan& plan, const ModelSpec& model) {
  return !model.mixture && bound_covers(model) && bound_covers(plan);
}

}  // namespace orrery
