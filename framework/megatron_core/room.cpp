#include "framework/head_rules.hpp"
#include "framework/megatron_core/read.hpp"
#include "framework/megatron_core/write.hpp"
#include "framework/rooms.hpp"

// Megatron-LM, and Megatron-Bridge and NeMo over it.

namespace orrery {

Framework megatron_core() {
  return {.name = "megatron-core",
          .title = "Megatron-LM",
          .software = "megatron-core",
          .abilities =
              "loss_chunks=1 tensor=1d sequence_parallel=on zero=0,1,2,3 reshard_after_forward=on prefetch=1 "
              "parameter_chunk=none "
              "schedule=1f1b,interleaved context=all_gather,ring,ulysses inner_ring=0 recompute_layers=0 "
              "offload_parameters=off offload_activations=off states_tier=host",
          .rules = {whole_kv_heads_of_ulysses(),
                    {"pipeline=1", "schedule=1f1b chunks=1", "without a pipeline microbatches follow each other"},
                    {"zero=0", "replica=1 offload_states=off", "only shards have copies, and only they are offloaded"},
                    {"zero=2,3", "pipeline=1 overlap_gradients=on offload_states=off",
                     "Megatron-FSDP has no pipeline here, and reduces beside the backward pass"},
                    {"context=all_gather,ring", "zigzag=on", "ranks hold an early and a late part of a sequence"},
                    {"expert=!1 context=!1", "expert_folding=context,context+tensor",
                     "expert ranks come from context ranks first"},
                    {"", "",
                     "ranks stand in the order pipeline, replica, data, expert, context, tensor, or with pipeline "
                     "behind data",
                     "mesh.order", megatron_order}},
          .rules_for = megatron_rules,
          .check_model = check_megatron_model,
          .abilities_source = "NVIDIA/Megatron-LM@d98e8a64, megatron/training/arguments.py",
          .programs = {"megatron-core", "nemo", "nemo-mlperf", "megatron-bridge-25.09", "megatron-bridge-25.11",
                       "megatron-bridge-26.06", "mlperf-5.1", "megatron-lm-2022", "megatron-deepspeed-2022"},
          .formats = {{"megatron-script", "a script of Megatron-LM", LaunchSyntax::flags, is_megatron_script,
                       read_megatron_script},
                      {"megatron-args", "arguments of a Megatron-LM test", LaunchSyntax::yaml, is_megatron_args,
                       read_megatron_args},
                      {"megatron-bridge", "overrides of Megatron-Bridge", LaunchSyntax::flags, is_megatron_bridge,
                       read_megatron_bridge},
                      {"megatron-bridge-python", "settings of Megatron-Bridge", LaunchSyntax::python, is_bridge_python,
                       read_bridge_python}},
          .writings = {
              {"megatron", "a script of Megatron-LM", write_megatron_script, "exec bash \"$LAUNCH\""},
              {"megatron-bridge", "overrides of Megatron-Bridge", write_megatron_bridge, "exec bash \"$LAUNCH\""}}};
}

}  // namespace orrery
