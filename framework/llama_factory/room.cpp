#include "framework/llama_factory/yaml.hpp"
#include "framework/rooms.hpp"

// LLaMA-Factory: a front end over DDP, FSDP, DeepSpeed and Megatron, launched with a YAML configuration. Its
// configurations are read; none are written, since they name data and templates that plans do not have. Abilities
// therefore stay empty.

namespace orrery {

Framework llama_factory() {
  return {.name = "llama-factory",
          .title = "LLaMA-Factory",
          .software = "",
          .abilities = "",
          .formats = {{"llama-factory-yaml", "a LLaMA-Factory configuration", LaunchSyntax::yaml, is_llama_factory_yaml,
                       read_llama_factory_yaml},
                      {"llama-factory-v1-yaml", "a LLaMA-Factory v1 configuration", LaunchSyntax::yaml,
                       is_llama_factory_v1_yaml, read_llama_factory_v1_yaml}}};
}

}  // namespace orrery
