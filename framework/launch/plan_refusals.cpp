#include "framework/launch/plan_refusals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/head_rules.hpp"

namespace orrery {

bool stand_in_order(const Mesh& mesh, std::initializer_list<Axis> axes) {
  auto at = axes.begin();
  for (const MeshAxis& a : mesh.axes) {
    if (a.size == 1 || std::find(axes.begin(), axes.end(), a.axis) == axes.end()) continue;
    at = std::find(at, axes.end(), a.axis);
    if (at == axes.end()) return false;
  }
  return true;
}

void ModelRefusals::refuse(const std::string& key, const char* code, std::string message,
                           std::vector<std::string> details) {
  out_.error(workload_.origin, key, std::string("export.") + code, std::move(message), std::move(details));
}

void ModelRefusals::precisions(std::initializer_list<Precision> known) {
  if (std::find(known.begin(), known.end(), workload_.precision) != known.end()) return;
  std::string names;
  for (const Precision p : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(p));
  refuse("workload.precision", "precision",
         fmt::format("{} does not train in {}", title_, name_of(workload_.precision)),
         {fmt::format("It has {}.", names)});
}

void ModelRefusals::usual_moments() {
  if (!workload_.master_weights) {
    refuse("workload.master_weights", "precision", fmt::format("{} is written with fp32 copies of the weights", title_),
           {"Leave out master_weights."});
  }
  if (moment_dtype(workload_) == state_dtype(workload_)) return;
  refuse("workload.moment_dtype", "optimizer", fmt::format("{} has no moments of 1 or 2 bytes", title_),
         {"Leave out moment_dtype."});
}

void ModelRefusals::no_decay_of_sgd() {
  const Optimizer& o = workload_.optimizer;
  if (o.kind != OptimizerKind::sgd || o.weight_decay == 0.0) return;
  refuse("workload.weight_decay", "optimizer", fmt::format("{}'s SGD adds weight decay to the gradient", title_),
         {fmt::format("weight_decay is {}; here it is decoupled from momentum.", o.weight_decay),
          "Set weight_decay to 0, or use adam."});
}

void ModelRefusals::no_dropout() {
  if (workload_.hidden_dropout == 0.0 && workload_.attention_dropout == 0.0) return;
  refuse("workload.dropout", "model", fmt::format("these models of {} have no dropout", title_), {"Set dropout to 0."});
}

void ModelRefusals::no_adapters(std::string also) {
  if (!workload_.adapters) return;
  std::vector<std::string> details = {
      "Configurations of DeepSpeed and Accelerate can be written: they do not say what is trained."};
  if (!also.empty()) details.push_back(std::move(also));
  refuse("workload.adapters", "adapters", fmt::format("{} is not written with adapters", title_), std::move(details));
}

void PlanRefusals::refuse(const std::string& key, const char* code, std::string message,
                          std::vector<std::string> details) {
  out_.error(run_.plan.origin, key, std::string("export.") + code, std::move(message), std::move(details));
}

void PlanRefusals::one_d_tensor() {
  if (run_.plan.tensor == TensorAlgorithm::one_d) return;
  refuse("plan.tensor", "tensor", fmt::format("{} has only 1D tensor parallelism", title_),
         {fmt::format("tensor is {}.", name_of(run_.plan.tensor)), "Set it to 1d, with the axis tensor."});
}

void PlanRefusals::whole_kv_heads() {
  if (tensor_keeps_kv_heads(run_)) return;
  refuse("mesh.tensor", "kv-heads", fmt::format("{} gives each tensor rank whole key-value heads", title_),
         {fmt::format("tensor is {}, and kv_heads {}.", run_.plan.mesh.size(Axis::tensor), run_.model.kv_heads),
          fmt::format("Set tensor to {} or a divisor of it.", run_.model.kv_heads)});
}

void PlanRefusals::whole_kv_heads_of_ulysses() {
  if (ulysses_keeps_kv_heads(run_)) return;
  refuse("mesh.context", "kv-heads", fmt::format("{} gives each rank of Ulysses whole key-value heads", title_),
         {fmt::format("tensor {} x context {} is more than the {} of the model.", run_.plan.mesh.size(Axis::tensor),
                      run_.plan.mesh.size(Axis::context), counted(run_.model.kv_heads, "key-value head")),
          "Set context to a smaller size, or to another algorithm."});
}

void PlanRefusals::no_placement() {
  if (run_.plan.placement.empty()) return;
  refuse("mesh.placement", "placement", fmt::format("{} has no key for the placement of ranks", title_),
         {"It puts rank i on device i.  Order the launcher's hosts instead, and leave the placement out."});
}

void PlanRefusals::whole_loss() {
  if (run_.plan.loss_chunks == 1) return;
  refuse("plan.loss_chunks", "loss-chunks", fmt::format("{} makes the loss in one piece", title_),
         {"Leave out loss_chunks."});
}

void PlanRefusals::no_folding() {
  if (run_.plan.expert_folding == ExpertFolding::none) return;
  refuse("plan.expert_folding", "expert-folding",
         fmt::format("{} holds other experts on ranks with other sequences alone", title_),
         {"Leave out expert_folding."});
}

void PlanRefusals::sends_rows() {
  if (run_.plan.expert_dispatch == ExpertDispatch::all_to_all) return;
  refuse("plan.expert_dispatch", "expert-dispatch", fmt::format("{} sends tokens to their experts alone", title_),
         {"Leave out expert_dispatch."});
}

void PlanRefusals::no_algorithm() {
  if (!run_.plan.collective_algorithm) return;
  refuse("plan.collective_algorithm", "algorithm",
         fmt::format("{} has no key for the algorithm of collectives", title_),
         {"The communication library chooses it; leave the override out."});
}

void PlanRefusals::no_pipeline(const char* why) {
  if (run_.plan.mesh.size(Axis::pipeline) > 1) {
    refuse("mesh.pipeline", "pipeline", fmt::format("{} has no pipeline that its file can say", title_),
           {fmt::format("pipeline is {}; {}.", run_.plan.mesh.size(Axis::pipeline), why), "Set pipeline to 1."});
  }
  no_order_alone();
}

void PlanRefusals::no_order_alone() {
  const Plan& p = run_.plan;
  if (p.mesh.size(Axis::pipeline) > 1 || (p.schedule == ScheduleName::one_f_one_b && p.chunks == 1)) return;
  refuse("plan.schedule", "schedule",
         fmt::format("without a pipeline {} takes microbatches one after the other through all layers", title_),
         {fmt::format("schedule is {}, and chunks is {}.", name_of(p.schedule), p.chunks),
          "Set schedule to 1f1b, and leave out chunks."});
}

void PlanRefusals::no_chunks() {
  if (!run_.plan.parameter_chunk || *run_.plan.parameter_chunk == Bytes()) return;
  refuse("plan.parameter_chunk", "chunk", fmt::format("{} packs no weights into chunks", title_),
         {"Leave out parameter_chunk."});
}

void PlanRefusals::no_offloaded_weights() {
  if (run_.plan.offload_parameters == 0U) return;
  refuse("plan.offload_parameters", "offload", fmt::format("{} offloads no weights below ZeRO-3", title_),
         {"Leave out offload_parameters."});
}

void PlanRefusals::on_host() {
  const Plan& p = run_.plan;
  const auto check = [&](OffloadTier tier, const char* key) {
    if (tier != OffloadTier::disk) return;
    refuse(key, "offload", fmt::format("{} offloads to host memory alone", title_), {"Leave out the tier."});
  };
  check(p.states_tier, "plan.states_tier");
  check(p.parameters_tier, "plan.parameters_tier");
  check(p.activations_tier, "plan.activations_tier");
}

void PlanRefusals::no_tensor_sequences() {
  if (!run_.plan.sequence_parallel) return;
  refuse("plan.sequence_parallel", "sequence-parallel",
         fmt::format("{} does not split norms along the sequence", title_), {"Set sequence_parallel to false."});
}

void PlanRefusals::order(std::initializer_list<Axis> axes) {
  if (stand_in_order(run_.plan.mesh, axes)) return;
  std::string names;
  for (const Axis a : axes) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(a));
  refuse("mesh.order", "mesh-order", fmt::format("{} lays out ranks in another order", title_),
         {fmt::format("Its order is {}, outermost first.", names)});
}

void PlanRefusals::single(Axis axis, const char* why) {
  if (run_.plan.mesh.size(axis) == 1) return;
  refuse(fmt::format("mesh.{}", name_of(axis)), "axis", fmt::format("{} has no axis {} here", title_, name_of(axis)),
         {fmt::format("{} is {}; {}.", name_of(axis), run_.plan.mesh.size(axis), why)});
}

std::uint32_t zero_in_force(const Plan& plan) { return shard_axes_of(plan).empty() ? 0 : plan.zero_stage; }

}  // namespace orrery
