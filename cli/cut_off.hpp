#pragma once

#include "core/base/diagnostics.hpp"
#include "sim/net/fabric.hpp"

namespace orrery {

/// GPUs of a fabric that no way joins any more, as a mistake of the user, who chose what fails (fabric.cut-off).
[[nodiscard]] Diagnostics diagnosed(const CutOff&);

}  // namespace orrery
