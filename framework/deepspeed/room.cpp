#include "framework/deepspeed/json.hpp"
#include "framework/deepspeed/write.hpp"
#include "framework/head_rules.hpp"
#include "framework/rooms.hpp"

// DeepSpeed: ZeRO with offload, launched with a JSON configuration. 1048576 recomputed layers are all of them.

namespace orrery {

Framework deepspeed() {
  return {.name = "deepspeed",
          .title = "DeepSpeed",
          .software = "",
          .abilities =
              "loss_chunks=1 expert_folding=none expert_dispatch=all_to_all pipeline=1 schedule=1f1b chunks=1 "
              "tensor=1d sequence_parallel=off "
              "context=ulysses "
              "recompute=none,full "
              "recompute_layers=0 offload_parameters=none offload_activations=none,all activations_tier=host "
              "reshard_after_forward=on parameter_chunk=none",
          .rules = {whole_kv_heads_of_tensor(),
                    {"zero=0,1,2", "replica=1", "MiCS, which has replicas, shards as ZeRO-3 does"},
                    {"zero=0", "overlap_gradients=off", "without ZeRO gradients are summed behind the backward pass"},
                    {"zero=0", "offload_states=none", "states are offloaded in ZeRO alone"},
                    {"zero=1,2", "offload_states=none,all", "a part of the states is offloaded in ZeRO-3 alone"},
                    {"zero=0,1,2", "states_tier=host", "disks are for ZeRO-3"},
                    {"states_tier=disk", "offload_states=none,all", "a part of the states goes to the host alone"},
                    {"recompute=none", "offload_activations=none", "checkpoints are what is kept in host memory"},
                    {"", "", "ranks stand in the order replica, data, expert, context, tensor", "mesh.order",
                     deepspeed_order}},
          .rules_for = deepspeed_rules,
          .check_model = check_deepspeed_model,
          .abilities_source =
              "microsoft/DeepSpeed@38327e07 deepspeed/runtime/zero/{config,offload_config}.py, engine.py; "
              "docs/_pages/config-json.md@edaa7221",
          .programs = {"deepspeed"},
          .formats = {{"deepspeed-json", "a DeepSpeed configuration", LaunchSyntax::yaml, is_deepspeed_json,
                       read_deepspeed_json}},
          .writings = {{"deepspeed", "a DeepSpeed configuration (JSON)", write_deepspeed,
                        "exec $TORCHRUN $TRAIN --deepspeed_config \"$LAUNCH\""}}};
}

}  // namespace orrery
