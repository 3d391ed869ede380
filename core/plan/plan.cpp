#include "core/plan/plan.hpp"

namespace orrery {

bool is_resolved(const Plan& plan) {
  return plan.stage_layers && plan.offload_states && plan.offload_parameters && plan.offload_activations &&
         plan.parameter_chunk && plan.gradient_bucket && plan.overlap_gradients && plan.attention;
}

AxisList shard_axes_of(const Plan& plan) {
  AxisList axes;
  for (const Axis axis : {Axis::data, Axis::context, Axis::expert}) {
    if (plan.mesh.size(axis) > 1) axes.axis[axes.count++] = axis;
  }
  return axes;
}

AxisList expert_axes(const Plan& plan) {
  AxisList axes{Axis::expert};
  for (const Axis axis : {Axis::context, Axis::tensor}) {
    if (folds(plan.expert_folding, axis) && plan.mesh.size(axis) > 1) axes.axis[axes.count++] = axis;
  }
  return axes;
}

bool folds_tensor(const Plan& plan) { return contains(expert_axes(plan), Axis::tensor); }

std::uint64_t routed_pieces(const Plan& plan) {
  const std::uint64_t context = plan.mesh.size(Axis::context);
  return context * (context > 1 && plan.zigzag ? 2 : 1) * (folds_tensor(plan) ? plan.mesh.size(Axis::tensor) : 1);
}

Workload as_routed(const Workload& workload, const Plan& plan) {
  Workload out = workload;
  const std::uint64_t pieces = routed_pieces(plan);
  if (out.routing.group == 0 && pieces > 1 && out.sequence_length % pieces == 0) {
    out.routing.group = out.sequence_length / pieces;
  }
  return out;
}

AxisList sequence_axes(const Plan& plan) {
  AxisList axes = batch_axes;
  const auto add = [&](Axis axis) { axes.axis[axes.count++] = axis; };
  switch (plan.tensor) {
    case TensorAlgorithm::one_d: break;
    case TensorAlgorithm::two_d: add(Axis::row); break;
    case TensorAlgorithm::two_half_d:
    case TensorAlgorithm::three_d: add(Axis::depth), add(Axis::row); break;
  }
  return axes;
}

std::uint64_t microbatches(const Plan& plan, const Workload& workload) {
  const std::uint64_t per_round = size(plan.mesh, sequence_axes(plan)) * plan.microbatch_size;
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
  std::uint64_t t = plan.mesh.size(Axis::tensor) * plan.mesh.size(Axis::row);
  if (plan.tensor == TensorAlgorithm::three_d) t *= plan.mesh.size(Axis::depth);
  return (model.vocabulary + t - 1) / t * t;
}

bool offloads(const Plan& plan) {
  return plan.offload_states != 0U || plan.offload_parameters != 0U || plan.offload_activations != 0U;
}

}  // namespace orrery
