#include "framework/accelerate/parts.hpp"
#include "framework/head_rules.hpp"
#include "framework/rooms.hpp"

// Accelerate: PyTorch's FSDP and DDP, and DeepSpeed and Megatron-LM behind one configuration. 1048576
// recomputed layers are all of them.

namespace orrery {

Framework accelerate() {
  return {
      .name = "accelerate",
      .title = "Accelerate (FSDP)",
      .software = "",
      .abilities =
          "loss_chunks=1 expert_folding=none expert_dispatch=all_to_all pipeline=1 schedule=1f1b chunks=1 expert=1 "
          "tensor=1d "
          "sequence_parallel=off zero=0,3 "
          "context=all_gather,ring "
          "zigzag=on inner_ring=0 recompute=none,full recompute_layers=0 offload=off parameter_chunk=none "
          "prefetch=1 overlap_gradients=on",
      .rules = {whole_kv_heads_of_tensor(),
                {"zero=0", "replica=1", "whole copies need no replicas beside them"},
                {"zero=0", "context=1", "parallelism_config goes with FSDP"},
                {"zero=0", "tensor=1", "parallelism_config goes with FSDP"},
                {"zero=0", "recompute=none", "checkpoints are a part of fsdp_config"},
                {"data=1", "replica=1", "replicas are copies of shards"},
                {"", "", "ranks stand in the order replica, data, context, tensor", "mesh.order", accelerate_order}},
      .check_model = check_accelerate_model,
      .abilities_source = "huggingface/accelerate@16cb6eb8 src/accelerate/{utils/dataclasses,parallelism_config}.py",
      .formats = {{"accelerate-yaml", "an Accelerate configuration", LaunchSyntax::yaml, is_accelerate_yaml,
                   read_accelerate_yaml},
                  {"peft-json", "PEFT's adapter_config.json", LaunchSyntax::yaml, is_peft_json, read_peft_json}},
      .writings = {{"accelerate", "an Accelerate configuration (YAML)", write_accelerate,
                    "exec accelerate launch --config_file \"$LAUNCH\" --num_machines \"$NODES\" --num_processes "
                    "$((NODES * GPUS)) --machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" "
                    "--main_process_port \"$MASTER_PORT\" $TRAIN"}}};
}

}  // namespace orrery
