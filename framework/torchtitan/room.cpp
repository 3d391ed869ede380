#include "framework/rooms.hpp"

namespace orrery {

Framework torchtitan() { return {.name = "torchtitan", .title = "torchtitan", .software = "", .abilities = ""}; }

}  // namespace orrery
