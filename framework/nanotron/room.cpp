#include "framework/rooms.hpp"

namespace orrery {

Framework nanotron() { return {.name = "nanotron", .title = "nanotron", .software = "", .abilities = ""}; }

}  // namespace orrery
