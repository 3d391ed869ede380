#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "exec/device/device.hpp"

namespace orrery {

struct CudaCalls;

/// The name that stands for no module, but for threads of this machine that behave like GPUs (HostDevice). With it
/// everything except the GPU's own calls can be rehearsed where no GPU is.
inline constexpr const char* stand_in_module = "stand-in";
/// So many GPUs a machine seems to have then: as many as most that train.
inline constexpr int stand_in_devices = 8;

/// Loads the module once and keeps it. Throws Error that says what is missing and how to get it: the module itself
/// (built without CUDA), a library that it needs, or a module of the same build.
[[nodiscard]] const CudaCalls& load_cuda(const std::filesystem::path& module);

/// Opens a GPU of this machine. Throws Error where there is none.
[[nodiscard]] std::unique_ptr<Device> open_cuda_device(const std::filesystem::path& module, int number = 0);

/// The GPUs that there are (CudaCalls::identity, by number). They are asked for in a separate process, because CUDA,
/// once begun in a process, does not work in those that it forks. Throws Error where there is none, and why.
[[nodiscard]] std::vector<std::string> cuda_devices_apart(const std::filesystem::path& module);

/// One line for people: "2 GPUs", "no GPU: there is no NVIDIA driver", or what load_cuda throws, without the folder
/// that the module lies in.
[[nodiscard]] std::string cuda_state(const std::filesystem::path& module);

}  // namespace orrery
