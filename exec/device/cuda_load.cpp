#include "exec/device/cuda_load.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "core/base/diagnostics.hpp"
#include "exec/device/cuda_calls.hpp"

namespace orrery {

const CudaCalls& load_cuda(const std::filesystem::path& module) {
  std::error_code ignored;
  if (!std::filesystem::exists(module, ignored)) {
    throw Error("this orrery was built without CUDA: there is no " + module.string() +
                ".  Where the CUDA Toolkit (nvcc 12.4 or later, cuBLAS) is installed, building again makes it.");
  }
  void* const handle = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(std::string("cannot load CUDA: ") + dlerror() +
                ".  It needs the CUDA libraries that it was built with (libcublasLt), found by LD_LIBRARY_PATH or "
                "ldconfig.");
  }
  const auto* calls = static_cast<const CudaCalls*>(dlsym(handle, cuda_calls_symbol));
  if (calls == nullptr || calls->shape != CudaCalls::current) {
    throw Error(module.string() + " belongs to another build of orrery");
  }
  return *calls;
}

std::unique_ptr<Device> open_cuda_device(const std::filesystem::path& module, int number) {
  return load_cuda(module).open(number);
}

int count_cuda_devices_apart(const std::filesystem::path& module) {
  const CudaCalls& calls = load_cuda(module);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(std::string("cannot ask for GPUs: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    std::string why;
    const int count = calls.count(why);
    const std::string text = std::to_string(count) + " " + why;
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  char text[1024] = {};
  const ssize_t got = child < 0 ? -1 : read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  int state = 0;
  if (child > 0) waitpid(child, &state, 0);
  if (got <= 0) throw Error("cannot ask for GPUs: the process that does it ended without an answer");
  char* why = nullptr;
  const long count = std::strtol(text, &why, 10);
  if (count <= 0) throw Error(std::string("no GPU to run on:") + why);
  return static_cast<int>(count);
}

std::string cuda_state(const std::filesystem::path& module) {
  try {
    std::string why;
    const int count = load_cuda(module).count(why);
    if (count == 0) return "no GPU: " + why;
    return std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace orrery
