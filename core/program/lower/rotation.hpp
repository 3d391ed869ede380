#pragma once

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Tells the kernel by which angles a layer's queries and keys rotate; a table of the Program where theta is not all.
void set_rotation(State&, std::uint32_t layer, Kernel&);

/// Rotates a layer's packed queries and keys, or back.
[[nodiscard]] Kernel rope_kernel(State&, std::uint32_t layer, KernelKind, Pass);

}  // namespace orrery::lowering
