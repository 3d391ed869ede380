#pragma once

#include <cstdint>
#include <string>

#include "edit/dimension.hpp"

// A value of one dimension put in place in a run, and nothing else.

namespace orrery {

/// Puts the value in place, without anything that follows; false, with the reason, where it means nothing.
[[nodiscard]] bool put(PlannedRun&, Dimension, std::uint64_t value, std::string& reason);

/// An axis that the mesh lacks gets its place in the usual order, unless its size is 1.
void set_size(Mesh&, Axis, std::uint32_t size);

}  // namespace orrery
