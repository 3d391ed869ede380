#pragma once

#include "exec/device/cuda_calls.hpp"

namespace orrery {

/// Calls that open threads of this machine which behave like GPUs (HostDevice). Throws Error where this build has none:
/// no_stand_in.cpp is there in place of stand_in.cpp.
[[nodiscard]] const CudaCalls& stand_in_calls();

}  // namespace orrery
