#include "framework/rooms.hpp"

namespace orrery {

Framework megatron_core() { return {.name = "megatron-core", .title = "Megatron-LM", .software = "", .abilities = ""}; }

}  // namespace orrery
