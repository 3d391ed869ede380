#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/device/device.hpp"

namespace orrery {

struct CudaCalls;

/// The module, loaded once and kept.  Throws Error that says what is missing and how to get it: the module itself
/// (built without CUDA), a library that it needs, or one of the same build.
[[nodiscard]] const CudaCalls& load_cuda(const std::filesystem::path& module);

/// A GPU of this machine.  Throws Error where there is none.
[[nodiscard]] std::unique_ptr<Device> open_cuda_device(const std::filesystem::path& module, int number = 0);

/// Which GPUs there are (CudaCalls::identity, by number), asked in a process of its own: CUDA, once begun in a process,
/// does not work in those that it forks.  Throws Error where there is none, and why.
[[nodiscard]] std::vector<std::string> cuda_devices_apart(const std::filesystem::path& module);

/// One line for people: "2 GPUs", "no GPU: there is no NVIDIA driver", or what load_cuda throws.
[[nodiscard]] std::string cuda_state(const std::filesystem::path& module);

}  // namespace orrery
