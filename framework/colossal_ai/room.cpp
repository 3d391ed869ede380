#include "framework/colossal_ai/parts.hpp"
#include "framework/rooms.hpp"

// Colossal-AI: a plugin of its booster says how a run is split.

namespace orrery {

Framework colossal_ai() {
  return {.name = "colossal-ai",
          .title = "Colossal-AI",
          .software = "",
          .abilities =
              "replica=1 tensor=1d zero=0,1,2 schedule=1f1b,interleaved,zb-v context=ulysses,ring "
              "recompute=none,full offload_states=none,all states_tier=host offload_parameters=none "
              "offload_activations=none",
          .rules = {{"zero=2", "pipeline=1", "with a pipeline ZeRO stops at stage 1"},
                    {"zero=2", "expert=1", "with experts ZeRO stops at stage 1"},
                    {"zero=0", "offload_states=none", "ZeRO alone offloads states"},
                    {"context=ring", "zigzag=on", "the ring balances causal work"},
                    {"sequence_parallel=on", "context=1", "there is one way to split sequences"},
                    {"pipeline=1", "chunks=1", "one stage has one chunk"},
                    {"pipeline=2,3,4,5,6,7,8,10,12,14,16,20,24,28,32,40,48,64,96,128", "overlap_gradients=off",
                     "a pipeline sums gradients at its end"},
                    {"expert=2,3,4,5,6,8,10,12,16,20,24,32,40,48,64,128,256 zero=1,2", "overlap_gradients=off",
                     "ZeRO with experts sums gradients at the end"},
                    {"context=2,3,4,5,6,7,8,10,12,16,20,24,32,40,48,64,96,128 context=ulysses", "tensor=1",
                     "its groups lie inside those of tensor parallelism, where plans have them outside"},
                    {"zero=0 pipeline=1", "overlap_gradients=on", "PyTorch's DDP overlaps"}},
          .abilities_source = "hpcaitech/ColossalAI@4f9953be colossalai/booster/plugin/hybrid_parallel_plugin.py",
          .formats = {{"colossal-ai-python", "a Colossal-AI plugin", LaunchSyntax::python, is_colossal_python,
                       read_colossal_python}},
          .writings = {{"colossal-ai", "a Colossal-AI plugin (Python)", write_colossal}}};
}

}  // namespace orrery
