#include "exec/device/cuda_load.hpp"

#include <dlfcn.h>

#include <exception>
#include <sstream>
#include <system_error>

#include "core/base/diagnostics.hpp"
#include "exec/device/cuda_calls.hpp"
#include "exec/device/stand_in.hpp"
#include "exec/device/told_by_child.hpp"

namespace orrery {
const CudaCalls& load_cuda(const std::filesystem::path& module) {
  if (module == stand_in_module) return stand_in_calls();
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

std::vector<std::string> cuda_devices_apart(const std::filesystem::path& module) {
  const CudaCalls& calls = load_cuda(module);
  std::string text;
  try {
    text = told_by_child([&calls]() -> std::string {
      try {
        std::string why;
        const int count = calls.count(why);
        if (count == 0) return "no GPU to run on: " + why;
        std::string lines = "\n";
        for (int i = 0; i < count; ++i) lines += calls.identity(i) + "\n";
        return lines;
      } catch (const std::exception& e) {
        return e.what();
      }
    });
  } catch (const Error& e) {
    throw Error(std::string("cannot ask for GPUs: ") + e.what());
  }
  if (text[0] != '\n') throw Error(text);
  std::vector<std::string> all;
  std::istringstream lines(text.substr(1));
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  return all;
}

std::string cuda_state(const std::filesystem::path& module) {
  if (module == stand_in_module) return "no GPU: threads of this machine stand in for GPUs";
  std::error_code ignored;
  if (!std::filesystem::exists(module, ignored)) return "this orrery was built without CUDA";
  try {
    std::string why;
    const int count = load_cuda(module).count(why);
    if (count == 0) return "no GPU: " + why;
    return std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
  } catch (const Error& e) {
    std::string why = e.what();
    const std::string folder = module.parent_path().string() + "/";
    for (std::size_t at; (at = why.find(folder)) != std::string::npos;) why.erase(at, folder.size());
    return why;
  }
}

}  // namespace orrery
