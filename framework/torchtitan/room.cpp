#include "framework/rooms.hpp"
#include "framework/torchtitan/reading.hpp"

// torchtitan: FSDP2 with tensor, context, pipeline and expert parallelism, launched with a TOML file and torchrun.

namespace orrery {

Framework torchtitan() {
  return {.name = "torchtitan",
          .title = "torchtitan",
          .software = "torchtitan",
          .abilities = "",
          .abilities_source = "pytorch/torchtitan@73a0e6979 (v0.2.2)",
          .formats = {{"torchtitan-toml", "a torchtitan configuration", LaunchSyntax::toml, is_torchtitan_toml,
                       read_torchtitan_toml}}};
}

}  // namespace orrery
