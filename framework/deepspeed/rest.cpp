#include <fmt/format.h>

#include "framework/deepspeed/parts.hpp"

// Activations, what no plan can say, and what has no effect.

namespace orrery {
namespace {

/// The block configures DeepSpeed's checkpoints of activations, which the model's code makes.
void read_checkpoints(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  const auto on = [&](const char* key) { return k.toggle(std::string("activation_checkpointing.") + key); };
  const auto number = k.whole("activation_checkpointing.number_checkpoints");
  const bool host = on("cpu_checkpointing").value_or(false);
  const bool parts = on("partition_activations").value_or(false);
  if (number.value_or(0) > 0 || host || parts || on("contiguous_memory_optimization").value_or(false)) {
    r.assume("plan.recompute", "\"full\"",
             "activation_checkpointing is set up; the model's code makes the checkpoints");
  }
  if (number.value_or(0) > 0) r.take("activation_checkpointing.number_checkpoints", "layers are recomputed");
  if (host) r.set("activation_checkpointing.cpu_checkpointing", "plan.offload_activations", "8");
  const LaunchValue* tensor = r.value("tensor_parallel.autotp_size");
  if (parts && tensor != nullptr && tensor->text != "1") {
    r.refuse("activation_checkpointing.partition_activations",
             "checkpoints that tensor ranks share out are not in plans", "a whole checkpoint on each rank");
  }
  r.without_effect({"activation_checkpointing", "activation_checkpointing.*"},
                   "it arranges the checkpoints that the model's code makes");
}

void read_refused(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  const auto refuse = [&](const char* table, const char* what, const char* nearest) {
    const std::string key = std::string(table) + ".enabled";
    const auto on = k.toggle(key);
    if (on && *on) r.refuse(key, what, nearest);
    const std::string all = std::string(table) + ".*";
    r.without_effect({table, all}, "it is a part of the above");
  };
  refuse("progressive_layer_drop", "layers that are left out at random are not in plans", "all layers");
  refuse("quantize_training", "quantised training is not in plans", "the precision of the file");
  refuse("curriculum_learning", "sequences that grow are not in plans", "the longest sequence");
  refuse("data_efficiency", "sampled and dropped data is not in plans", "all of it");
  refuse("hybrid_engine", "generation between steps is not in plans", "training steps alone");
  for (const LaunchValue& v : r.file().values) {
    if (v.key.starts_with("compression_training"))
      r.refuse(v.key, "compressed training is not in plans", "training without it");
    if (v.key.starts_with("sparse_attention"))
      r.refuse(v.key, "block-sparse attention is not in plans", "the model's own attention");
  }
  if (k.toggle("sparse_gradients").value_or(false))
    r.refuse("sparse_gradients", "sparse gradients of the embedding are not in plans", "dense ones");
  if (const auto on = k.toggle("fp32_allreduce"); on.value_or(false))
    r.refuse("fp32_allreduce", "messages wider than the sums are not in plans", "messages in the type of the sums");
  if (k.has("communication_data_type") && !k.is_open("communication_data_type")) {
    r.refuse("communication_data_type", "a type of messages of its own is not in plans",
             "messages in the type of the sums");
  }
  if (const LaunchValue* passes = r.value("compile.passes"); passes != nullptr) {
    bool sequences = false;
    for (const LaunchValue& item : passes->items) sequences = sequences || item.text == "autosp";
    if (sequences)
      r.refuse("compile.passes", "autosp splits sequences over ranks that the script counts", "whole sequences");
    else
      r.take("compile.passes", "how the model is compiled");
  }
  if (const auto et = k.whole("expert_parallel.expert_tensor_parallel_size", 1); et.value_or(1) > 1)
    r.refuse("expert_parallel.expert_tensor_parallel_size", "tensor ranks of experts alone are not in plans", "1");
}

}  // namespace

void read_deepspeed_rest(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  read_checkpoints(k);
  read_refused(k);
  r.without_effect({"tensor_parallel", "tensor_parallel.*", "expert_parallel", "expert_parallel.*", "compile",
                    "compile.*", "inference", "injection_policy_tuple"},
                   "it names modules, not sizes");
  r.without_effect({"steps_per_print",
                    "wall_clock_breakdown",
                    "memory_breakdown",
                    "dump_state",
                    "comms_logger",
                    "comms_logger.*",
                    "flops_profiler",
                    "flops_profiler.*",
                    "tensorboard",
                    "tensorboard.*",
                    "wandb",
                    "wandb.*",
                    "comet",
                    "comet.*",
                    "csv_monitor",
                    "csv_monitor.*",
                    "monitor_config",
                    "monitor_config.*",
                    "vocabulary_size",
                    "timers",
                    "timers.*",
                    "print_profile",
                    "verbose"},
                   "it measures and reports");
  r.without_effect({"autotuning", "autotuning.*"}, "it is for the autotuner's own runs");
  r.without_effect({"checkpoint", "checkpoint.*", "nebula", "nebula.*", "datastates_ckpt", "datastates_ckpt.*",
                    "use_node_local_storage", "load_universal_checkpoint", "checkpoint_engine", "checkpoint_engine.*"},
                   "it is for checkpoints");
  r.without_effect({"aio", "aio.*"}, "the disk's own rate is in the cluster");
  r.without_effect({"dataloader_drop_last", "data_sampling", "eigenvalue", "eigenvalue.*", "seed"},
                   "it is for the data");
  r.without_effect({"prescale_gradients",
                    "gradient_predivide_factor",
                    "fp32_allreduce",
                    "sparse_gradients",
                    "communication_data_type",
                    "seq_parallel_communication_data_type",
                    "seq_parallel_comm_data_type",
                    "disable_allgather",
                    "zero_allow_untested_optimizer",
                    "zero_force_ds_cpu_optimizer",
                    "zero_allow_comm_data_type_fp32",
                    "graph_harvesting",
                    "use_data_before_expert_parallelism",
                    "weight_quantization",
                    "weight_quantization.*",
                    "pipeline",
                    "pipeline.*",
                    "distributed_backend",
                    "data_types",
                    "data_types.*",
                    "gradient_accumulation_dtype",
                    "optimizer_name",
                    "zenflow"},
                   "it costs no step time that plans have");
  // Comments that people put in JSON, and what only scripts look at.
  r.without_effect({"_comment*", "comment*", "//*", "__comment*", "client", "client.*"}, "a comment");
}

}  // namespace orrery
