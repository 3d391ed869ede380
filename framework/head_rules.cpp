#include "framework/head_rules.hpp"

#include "core/plan/head_shares.hpp"

namespace orrery {

bool tensor_keeps_kv_heads(const PlannedRun& run) {
  return run.plan.tensor != TensorAlgorithm::one_d || run.plan.mesh.size(Axis::tensor) <= run.model.kv_heads;
}

bool ulysses_keeps_kv_heads(const PlannedRun& run) {
  const std::uint64_t context = run.plan.mesh.size(Axis::context);
  if (context == 1 || run.plan.context != ContextAlgorithm::ulysses) return true;
  const std::uint64_t ranks = run.plan.mesh.size(Axis::tensor) * run.plan.mesh.size(Axis::column);
  return held_kv_heads(run.model, ranks) / ranks >= context;
}

AbilityRule whole_kv_heads_of_tensor() {
  return {"", "", "tensor ranks have whole key-value heads, and no copies of one", "mesh.tensor",
          tensor_keeps_kv_heads};
}

AbilityRule whole_kv_heads_of_ulysses() {
  return {"", "", "context ranks of Ulysses have whole key-value heads, and no copies of one", "mesh.context",
          ulysses_keeps_kv_heads};
}

}  // namespace orrery
