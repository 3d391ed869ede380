#include "core/program/lower/layer_bytes.hpp"

#include <algorithm>

#include "core/program/lower/state.hpp"

namespace orrery {

Bytes whole_layer_bytes(const Plan& of, const ModelSpec& model, const Workload& workload) {
  Plan plan = of;
  plan.zero_stage = 3;
  plan.parameter_chunk = Bytes();
  plan.recompute_layers.reset();
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  lowering::State s(model, workload, plan);
  lowering::declare_parameters(s);
  std::uint64_t bytes = size_of(s.program[s.layer.whole_weights]);
  if (mixes_kinds(model)) bytes = std::max(bytes, size_of(s.program[s.dense_layer.whole_weights]));
  return Bytes::of(static_cast<double>(bytes));
}

}  // namespace orrery
