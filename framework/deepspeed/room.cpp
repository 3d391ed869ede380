#include "framework/deepspeed/json.hpp"
#include "framework/rooms.hpp"

// DeepSpeed: ZeRO with offload, launched with a JSON configuration.

namespace orrery {

Framework deepspeed() {
  return {.name = "deepspeed",
          .title = "DeepSpeed",
          .software = "",
          .abilities = "",
          .formats = {{"deepspeed-json", "a DeepSpeed configuration", LaunchSyntax::yaml, is_deepspeed_json,
                       read_deepspeed_json}}};
}

}  // namespace orrery
