#include <fmt/format.h>

#include "framework/accelerate/parts.hpp"
#include "framework/launch/plan_refusals.hpp"

// A plan as a configuration of Accelerate: FSDP2 for ZeRO-3, DDP for whole copies. Batch and sequence are arguments of
// the training script.

namespace orrery {
namespace {

constexpr std::initializer_list<Axis> axes_in_order{Axis::replica, Axis::data, Axis::context, Axis::tensor};

void refuse(const PlannedRun& run, PlanRefusals& no) {
  const Plan& p = run.plan;
  no.one_d_tensor();
  no.whole_kv_heads();
  no.no_folding();
  no.sends_rows();
  no.no_placement();
  no.no_algorithm();
  no.whole_loss();
  no.no_pipeline("FSDP has no stages");
  no.no_chunks();
  no.no_tensor_sequences();
  no.single(Axis::expert, "FSDP shards experts as other weights");
  no.order(axes_in_order);
  if ((p.zero_stage == 1 || p.zero_stage == 2) && shard_axes_of(p).count > 0) {
    no.refuse(
        "plan.zero_stage", "zero", "FSDP shards weights too, or nothing",
        {fmt::format("zero_stage is {}.", p.zero_stage), "Set it to 3 or 0, or write a DeepSpeed configuration."});
  }
  const bool sharded = p.zero_stage == 3;
  for (const Axis axis : {Axis::replica, Axis::context, Axis::tensor}) {
    if (!sharded) no.single(axis, "without FSDP every process has a whole copy and takes other sequences");
  }
  if (sharded && p.mesh.size(Axis::replica) > 1 && p.mesh.size(Axis::data) == 1) {
    no.refuse("mesh.replica", "replica", "Accelerate has replicas of shards, not of whole copies",
              {"Set data to the number of replicas, and replica to 1."});
  }
  if (p.mesh.size(Axis::context) > 1) {
    if (p.context != ContextAlgorithm::all_gather && p.context != ContextAlgorithm::ring)
      no.refuse("plan.context", "context", "FSDP's context parallelism gathers keys and values, or sends them around",
                {"Set context to all_gather or ring."});
    else if (!p.zigzag || p.inner_ring > 0)
      no.refuse("plan.zigzag", "zigzag", "PyTorch's context parallelism balances causal work, in one ring",
                {"Set zigzag to true, and leave out inner_ring."});
  }
  if (p.recompute == Recompute::selective || (p.recompute == Recompute::full && (p.recompute_layers || !sharded))) {
    no.refuse("plan.recompute", "recompute", "Accelerate checkpoints all layers under FSDP, or none",
              {"Set recompute to full or none, and leave out recompute_layers."});
  }
  if (p.offload_states.value_or(0) > 0 || p.offload_parameters.value_or(0) > 0 ||
      p.offload_activations.value_or(0) > 0) {
    no.refuse("plan.offload_states", "offload",
              "FSDP offloads weights and states together, which plans with ZeRO-3 cannot",
              {"Leave out the offload, or write a DeepSpeed configuration."});
  }
  if (sharded && p.prefetch != 1 && shard_axes_of(p).count > 0) {
    no.refuse("plan.prefetch", "prefetch", "FSDP2 gathers a layer ahead", {"Set prefetch to 1."});
  }
  if (!p.overlap_gradients.value_or(true) && (shard_axes_of(p).count > 0 || p.mesh.size(Axis::replica) > 1)) {
    no.refuse("plan.overlap_gradients", "overlap", "FSDP and DDP reduce gradients beside the backward pass",
              {"Set overlap_gradients to true."});
  }
}

}  // namespace

bool accelerate_order(const PlannedRun& run) { return stand_in_order(run.plan.mesh, axes_in_order); }

void check_accelerate_model(const ModelSpec&, const Workload& w, Diagnostics& d) {
  ModelRefusals no(w, "Accelerate", d);
  no.precisions({Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp8});
  no.usual_moments();
  if (gradient_dtype(w) != DType::f32) {
    no.refuse("workload.gradient_dtype", "gradient-dtype", "FSDP sums gradients in fp32",
              {"Leave out gradient_dtype."});
  }
}

std::optional<std::string> write_accelerate(const PlannedRun& run, Diagnostics& d) {
  PlanRefusals no(run, "Accelerate", d);
  check_accelerate_model(run.model, run.workload, d);
  refuse(run, no);
  if (!no.none()) return std::nullopt;
  const Plan& p = run.plan;
  const Workload& w = run.workload;
  const bool sharded = p.zero_stage == 3;
  const std::uint64_t ranks = std::uint64_t{p.mesh.size(Axis::data)} * p.mesh.size(Axis::replica);
  const std::uint64_t gpus = p.mesh.size();
  const std::uint64_t steps = w.global_batch / (ranks * p.microbatch_size);
  std::string out = fmt::format(
      "# accelerate launch --config_file this.yaml train.py\n"
      "# The script's own: {} sequences in a microbatch of a process, {} microbatches in a step, {} tokens.\n"
      "compute_environment: LOCAL_MACHINE\n",
      p.microbatch_size, steps, w.sequence_length);
  out += fmt::format("distributed_type: {}\n", sharded ? "FSDP" : gpus > 1 ? "MULTI_GPU" : "'NO'");
  switch (w.precision) {
    case Precision::fp64:
    case Precision::fp32: out += "mixed_precision: 'no'\n"; break;
    case Precision::bf16: out += "mixed_precision: bf16\n"; break;
    case Precision::fp16: out += "mixed_precision: fp16\n"; break;
    case Precision::fp8: out += "mixed_precision: fp8\n"; break;
  }
  out += fmt::format("num_processes: {}\n", gpus);
  if (run.cluster) {
    const std::uint64_t node = run.cluster->devices_per_node;
    out += fmt::format("num_machines: {}\n", (gpus + node - 1) / std::max<std::uint64_t>(node, 1));
  }
  if (!sharded) return out;
  out += fmt::format(
      "fsdp_config:\n"
      "  fsdp_version: 2\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_reshard_after_forward: {}\n"
      "  fsdp_activation_checkpointing: {}\n"
      "  fsdp_offload_params: false\n",
      p.reshard_after_forward, p.recompute == Recompute::full);
  if (p.mesh.size(Axis::data) == gpus) return out;
  const std::string key = "  parallelism_config_";
  out += fmt::format("parallelism_config:\n{0}dp_replicate_size: {1}\n{0}dp_shard_size: {2}\n", key,
                     p.mesh.size(Axis::replica), p.mesh.size(Axis::data));
  out += fmt::format("{}tp_size: {}\n", key, p.mesh.size(Axis::tensor));
  if (const auto c = p.mesh.size(Axis::context); c > 1) {
    out += fmt::format("{0}cp_size: {1}\n{0}cp_comm_strategy: {2}\n", key, c,
                       p.context == ContextAlgorithm::ring ? "alltoall" : "allgather");
  }
  return out;
}

}  // namespace orrery
