#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "exec/device/device.hpp"

namespace orrery {

struct CudaCalls;

/// The module, loaded once and kept.  Throws Error that says what is missing and how to get it: the module itself
/// (built without CUDA), a library that it needs, or one of the same build.
[[nodiscard]] const CudaCalls& load_cuda(const std::filesystem::path& module);

/// A GPU of this machine.  Throws Error where there is none.
[[nodiscard]] std::unique_ptr<Device> open_cuda_device(const std::filesystem::path& module, int number = 0);

/// One line for people: "built for it; 1 GPU", "built without CUDA".
[[nodiscard]] std::string cuda_state(const std::filesystem::path& module);

}  // namespace orrery
