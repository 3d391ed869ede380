#include "cli/own_gpu_calibration.hpp"

#include <fmt/format.h>

#include "cli/common.hpp"
#include "framework/own_executor.hpp"

namespace orrery {

std::filesystem::path own_gpu_calibration_path(const std::string& gpu) {
  return own_calibration_path().replace_filename(fmt::format("{}-{}.toml", own_gpu_executor, gpu));
}

}  // namespace orrery
