#include "framework/head_rules.hpp"
#include "framework/nanotron/reading.hpp"
#include "framework/nanotron/writing.hpp"
#include "framework/rooms.hpp"

// nanotron: 3D parallelism of Hugging Face, launched with a YAML file and torchrun.

namespace orrery {

Framework nanotron() {
  return {.name = "nanotron",
          .title = "nanotron",
          .software = "",
          .abilities =
              "loss_chunks=1 expert_folding=none expert_dispatch=all_to_all tensor=1d replica=1 expert=1 zero=0,1 "
              "context=all_gather,ring "
              "zigzag=off inner_ring=0 "
              "schedule=gpipe,1f1b recompute=none,full recompute_layers=0 offload=off attention=flash "
              "overlap_gradients=on",
          .rules = {whole_kv_heads_of_tensor(),
                    {"zero=1", "context=1", "nanotron shards states along data alone"},
                    {"", "", "ranks stand in the order pipeline, data, context, tensor", "mesh.order", nanotron_order},
                    {"", "", "nanotron shares layers out by their cost", "plan.stage_layers", nanotron_stages}},
          .close = close_nanotron_stages,
          .check_model = check_nanotron_model,
          .abilities_source = "huggingface/nanotron@2411b022, src/nanotron/config/parallelism_config.py",
          .programs = {"nanotron"},
          .formats = {{"nanotron-yaml", "a nanotron configuration", LaunchSyntax::yaml, is_nanotron_yaml,
                       read_nanotron_yaml}},
          .writings = {{"nanotron", "a nanotron configuration", write_nanotron,
                        "export CUDA_DEVICE_MAX_CONNECTIONS=1; "
                        "exec $TORCHRUN run_train.py --config-file \"$LAUNCH\""}}};
}

}  // namespace orrery
