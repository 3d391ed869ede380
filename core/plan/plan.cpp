#include "core/plan/plan.hpp"

namespace orrery {

bool is_resolved(const Plan& plan) {
  return plan.stage_layers && plan.gradient_bucket && plan.overlap_gradients && plan.attention;
}

std::uint64_t microbatches(const Plan& plan, const Workload& workload) {
  const std::uint64_t per_round = size(plan.mesh, batch_axes) * plan.microbatch_size;
  ORRERY_ASSERT(per_round > 0 && workload.global_batch % per_round == 0, workload.global_batch, per_round);
  return workload.global_batch / per_round;
}

std::uint32_t first_layer(const Plan& plan, std::uint32_t stage) {
  ORRERY_ASSERT(plan.stage_layers && stage <= plan.stage_layers->size(), stage);
  std::uint32_t first = 0;
  for (std::uint32_t s = 0; s < stage; ++s) first += (*plan.stage_layers)[s];
  return first;
}

std::uint64_t padded_vocabulary(const Plan& plan, const ModelSpec& model) {
  const std::uint64_t t = plan.mesh.size(Axis::tensor);
  return (model.vocabulary + t - 1) / t * t;
}

}  // namespace orrery
