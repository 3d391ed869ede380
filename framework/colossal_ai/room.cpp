#include "framework/colossal_ai/parts.hpp"
#include "framework/head_rules.hpp"
#include "framework/rooms.hpp"

// Colossal-AI: a plugin of its booster says how a run is split.

namespace orrery {

Framework colossal_ai() {
  return {.name = "colossal-ai",
          .title = "Colossal-AI",
          .software = "",
          .abilities =
              "loss_chunks=1 expert_folding=none expert_dispatch=all_to_all replica=1 tensor=1d zero=0,1,2 "
              "schedule=1f1b,interleaved,zb-v "
              "context=ulysses,ring "
              "recompute=none,full offload_states=none,all states_tier=host offload_parameters=none "
              "offload_activations=none",
          .rules = {whole_kv_heads_of_tensor(),
                    whole_kv_heads_of_ulysses(),
                    {"zero=2", "pipeline=1", "with a pipeline ZeRO stops at stage 1"},
                    {"zero=2", "expert=1", "with experts ZeRO stops at stage 1"},
                    {"zero=0", "offload_states=none", "ZeRO alone offloads states"},
                    {"context=ring", "zigzag=on", "the ring balances causal work"},
                    {"sequence_parallel=on", "context=1", "there is one way to split sequences"},
                    {"pipeline=1", "schedule=1f1b chunks=1", "without a pipeline microbatches follow each other"},
                    {"overlap_gradients=on", "pipeline=1", "a pipeline sums gradients at its end"},
                    {"overlap_gradients=on zero=1", "expert=1", "ZeRO with experts sums gradients at the end"},
                    {"zero=0 pipeline=1", "overlap_gradients=on", "PyTorch's DDP overlaps"},
                    {"", "",
                     "ranks stand in the order pipeline, data, expert, tensor, context, or data, pipeline, ..; rings "
                     "lie outside tensor",
                     "mesh.order", colossal_order}},
          .check_model = check_colossal_model,
          .abilities_source = "hpcaitech/ColossalAI@4f9953be colossalai/booster/plugin/hybrid_parallel_plugin.py",
          .formats = {{"colossal-ai-python", "a Colossal-AI plugin", LaunchSyntax::python, is_colossal_python,
                       read_colossal_python}},
          .writings = {{"colossal-ai", "a Colossal-AI plugin (Python)", write_colossal, "exec $TORCHRUN $TRAIN"}}};
}

}  // namespace orrery
