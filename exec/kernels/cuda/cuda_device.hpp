#pragma once

#include "exec/device/device.hpp"

namespace orrery::cuda {

/// GPUs that this process sees; 0 with the reason in `why` where CUDA cannot be used.
[[nodiscard]] int count_devices(std::string& why);
/// NVIDIA's number of the GPU in hexadecimal digits: the same in every process that sees it.  Throws Error.
[[nodiscard]] std::string identity_of(int number);
/// Throws Error where there is no such GPU.
[[nodiscard]] std::unique_ptr<Device> open_device(int number);

}  // namespace orrery::cuda
