#pragma once

#include "exec/device/device.hpp"

namespace orrery::cuda {

/// GPUs that this process sees; 0 with the reason in `why` where CUDA cannot be used.
[[nodiscard]] int count_devices(std::string& why);
/// Throws Error where there is no such GPU.
[[nodiscard]] std::unique_ptr<Device> open_device(int number);

}  // namespace orrery::cuda
