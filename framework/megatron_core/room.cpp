#include <string>

#include "framework/megatron_core/read.hpp"
#include "framework/megatron_core/write.hpp"
#include "framework/rooms.hpp"

// Megatron-LM, and Megatron-Bridge and NeMo over it.

namespace orrery {

namespace {

/// "expert=2,3,4,..": any size but one.
const std::string& several_expert_ranks() {
  static const std::string text = [] {
    constexpr int most = 512;  // experts of the largest models
    std::string out = "expert=2";
    for (int n = 3; n <= most; ++n) out += "," + std::to_string(n);
    return out;
  }();
  return text;
}

}  // namespace

Framework megatron_core() {
  return {.name = "megatron-core",
          .title = "Megatron-LM",
          .software = "megatron-core",
          .abilities =
              "tensor=1d sequence_parallel=on zero=0,1,2,3 reshard_after_forward=on prefetch=1 parameter_chunk=none "
              "schedule=1f1b,interleaved context=all_gather,ring,ulysses inner_ring=0 recompute_layers=0 "
              "offload_parameters=off offload_activations=off states_tier=host",
          .rules = {{"pipeline=1", "schedule=1f1b chunks=1", "without a pipeline microbatches follow each other"},
                    {"zero=0", "replica=1 offload_states=off", "only shards have copies, and only they are offloaded"},
                    {"zero=2,3", "pipeline=1 overlap_gradients=on offload_states=off",
                     "Megatron-FSDP has no pipeline here, and reduces beside the backward pass"},
                    {"context=all_gather,ring", "zigzag=on", "ranks hold an early and a late part of a sequence"},
                    {several_expert_ranks(), "context=1", "expert ranks come from context ranks first"},
                    {"", "",
                     "ranks stand in the order pipeline, replica, data, expert, context, tensor, or with pipeline "
                     "behind data",
                     "mesh.order", megatron_order}},
          .rules_for = megatron_rules,
          .check_model = check_megatron_model,
          .abilities_source = "NVIDIA/Megatron-LM@d98e8a64, megatron/training/arguments.py",
          .formats = {{"megatron-script", "a script of Megatron-LM", LaunchSyntax::flags, is_megatron_script,
                       read_megatron_script},
                      {"megatron-args", "arguments of a Megatron-LM test", LaunchSyntax::yaml, is_megatron_args,
                       read_megatron_args}},
          .writings = {{"megatron", "a script of Megatron-LM", write_megatron_script}}};
}

}  // namespace orrery
