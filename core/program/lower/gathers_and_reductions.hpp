#pragma once

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Clears each module's gradients (State::blocks of clear).
void build_clear(State&);

}  // namespace orrery::lowering
