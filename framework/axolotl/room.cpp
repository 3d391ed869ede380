#include "framework/rooms.hpp"

namespace orrery {

Framework axolotl() { return {.name = "axolotl", .title = "axolotl", .software = "", .abilities = ""}; }

}  // namespace orrery
