#pragma once

#include <filesystem>
#include <string>

namespace orrery {

/// Where `orrery calibrate --backend cuda` writes what a GPU of that calibration ("h100") takes for Orrery's own
/// kernels: beside the calibration of this machine's cores. Only plans for Orrery's own executor on GPUs are priced
/// with it (own_gpu_executor).
[[nodiscard]] std::filesystem::path own_gpu_calibration_path(const std::string& gpu);

}  // namespace orrery
