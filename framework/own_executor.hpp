#pragma once

#include <string_view>

namespace orrery {

struct Framework;

/// Orrery's own executor on GPUs, as a framework. It has no launch files: plan files are its launches.
inline constexpr std::string_view own_gpu_executor = "orrery-cuda";
[[nodiscard]] Framework orrery_cuda();

}  // namespace orrery
