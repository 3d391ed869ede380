#include "framework/rooms.hpp"

namespace orrery {

Framework accelerate() { return {.name = "accelerate", .title = "Accelerate", .software = "", .abilities = ""}; }

}  // namespace orrery
