#include "framework/head_rules.hpp"
#include "framework/rooms.hpp"
#include "framework/torchtitan/reading.hpp"
#include "framework/torchtitan/writing.hpp"

// torchtitan: FSDP2 with tensor, context, pipeline and expert parallelism, launched with a TOML file and torchrun.

namespace orrery {
Framework torchtitan() {
  return {.name = "torchtitan",
          .title = "torchtitan",
          .software = "torchtitan",
          .abilities =
              "loss_chunks=1 expert_dispatch=all_to_all tensor=1d sequence_parallel=on zero=3 prefetch=1 "
              "parameter_chunk=none context=all_gather,ring "
              "zigzag=on inner_ring=0 schedule=gpipe,1f1b,interleaved,breadth-first,zb-v,dualpipe-v "
              "recompute=none,full recompute_layers=0 offload=off attention=flash overlap_gradients=on",
          .rules = {whole_kv_heads_of_tensor(),
                    {"pipeline=1", "schedule=1f1b chunks=1", "without a pipeline microbatches follow each other"},
                    {"expert=!1 context=!1", "expert_folding=context,context+tensor",
                     "expert ranks come from context ranks first"},
                    {"data=1 context=1 expert=1", "pipeline=1 tensor=1",
                     "mixed precision and replicas beside other axes need FSDP"},
                    {"", "", "ranks stand in the order pipeline, replica, data, expert, context, tensor", "mesh.order",
                     torchtitan_order}},
          .rules_for = torchtitan_rules,
          .check_model = check_torchtitan_model,
          .abilities_source = "pytorch/torchtitan@73a0e6979 (v0.2.2), torchtitan/config/job_config.py",
          .programs = {"torchtitan"},
          .formats = {{"torchtitan-toml", "a torchtitan configuration", LaunchSyntax::toml, is_torchtitan_toml,
                       read_torchtitan_toml},
                      {"torchtitan-flags", "a command line of torchtitan", LaunchSyntax::flags, is_torchtitan_flags,
                       read_torchtitan_flags}},
          .writings = {{"torchtitan", "a torchtitan configuration", write_torchtitan,
                        "exec $TORCHRUN -m torchtitan.train --job.config_file \"$LAUNCH\""}}};
}

}  // namespace orrery
