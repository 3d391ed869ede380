#include "framework/rooms.hpp"

namespace orrery {

Framework colossal_ai() { return {.name = "colossal-ai", .title = "Colossal-AI", .software = "", .abilities = ""}; }

}  // namespace orrery
