#include "framework/megatron_core/read.hpp"
#include "framework/rooms.hpp"

// Megatron-LM, and Megatron-Bridge and NeMo over it.

namespace orrery {

Framework megatron_core() {
  return {.name = "megatron-core",
          .title = "Megatron-LM",
          .software = "megatron-core",
          .abilities = "",
          .formats = {{"megatron-script", "a script of Megatron-LM", LaunchSyntax::flags, is_megatron_script,
                       read_megatron_script},
                      {"megatron-args", "arguments of a Megatron-LM test", LaunchSyntax::yaml, is_megatron_args,
                       read_megatron_args}}};
}

}  // namespace orrery
