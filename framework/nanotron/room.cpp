#include "framework/nanotron/reading.hpp"
#include "framework/rooms.hpp"

// nanotron: 3D parallelism of Hugging Face, launched with a YAML file and torchrun.

namespace orrery {

Framework nanotron() {
  return {.name = "nanotron",
          .title = "nanotron",
          .software = "",
          .abilities = "",
          .abilities_source = "huggingface/nanotron@2411b022",
          .formats = {{"nanotron-yaml", "a nanotron configuration", LaunchSyntax::yaml, is_nanotron_yaml,
                       read_nanotron_yaml}}};
}

}  // namespace orrery
