#pragma once

#include <string_view>

namespace orrery {

/// Orrery's own executor on GPUs, as a framework. It has no launch files: plan files are its launches.
inline constexpr std::string_view own_gpu_executor = "orrery-cuda";

}  // namespace orrery
