#include "framework/axolotl/yaml.hpp"
#include "framework/rooms.hpp"

// axolotl: a front end over DDP, FSDP and DeepSpeed, launched with a YAML configuration. Its configurations are read;
// none are written, since they name data and tokens that plans do not have. Abilities therefore stay empty.

namespace orrery {

Framework axolotl() {
  return {.name = "axolotl",
          .title = "axolotl",
          .software = "",
          .abilities = "",
          .formats = {
              {"axolotl-yaml", "an axolotl configuration", LaunchSyntax::yaml, is_axolotl_yaml, read_axolotl_yaml}}};
}

}  // namespace orrery
