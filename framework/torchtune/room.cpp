#include "framework/rooms.hpp"
#include "framework/torchtune/yaml.hpp"

// torchtune: PyTorch's recipes of fine-tuning, on one GPU or over FSDP2, launched with a YAML configuration. Its
// configurations are read; none are written, since they name data and checkpoints that plans do not have. Abilities
// therefore stay empty.

namespace orrery {

Framework torchtune() {
  return {.name = "torchtune",
          .title = "torchtune",
          .software = "",
          .abilities = "",
          .formats = {{"torchtune-yaml", "a torchtune configuration", LaunchSyntax::yaml, is_torchtune_yaml,
                       read_torchtune_yaml}}};
}

}  // namespace orrery
