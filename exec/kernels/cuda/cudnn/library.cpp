#include "exec/kernels/cuda/cudnn/library.hpp"

#include <cudnn.h>
#include <dlfcn.h>

#include <mutex>
#include <optional>

#include "core/base/diagnostics.hpp"

namespace cudnn_frontend {
/// NVIDIA's frontend asks this for cuDNN's functions where it is built for loading at run time.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace orrery::cudnn {
namespace {

#define ORRERY_TEXT_OF(x) #x
#define ORRERY_TEXT(x) ORRERY_TEXT_OF(x)
constexpr const char* file = "libcudnn.so." ORRERY_TEXT(CUDNN_MAJOR);
constexpr const char* runtime = "libcudart.so." ORRERY_TEXT(ORRERY_CUDA_MAJOR);
/// From here on cuDNN takes windows without a causal mask, and describes devices.
/// Source: cudnn-frontend 1.32, node/sdpa_support_surface.h and backend/device_properties.h.
constexpr int oldest = 91100;

template <class F>
F* function(const char* name) {
  return reinterpret_cast<F*>(dlsym(cudnn_frontend::cudnn_dlhandle, name));
}

std::string version_text(int v) {
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

struct Loaded {
  std::optional<Library> library;
  std::string why;
};

Loaded load() {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {std::nullopt, std::string("cannot load cuDNN: ") + dlerror()};
  const auto version = reinterpret_cast<decltype(&cudnnGetVersion)>(dlsym(handle, "cudnnGetVersion"));
  if (version == nullptr) return {std::nullopt, std::string(file) + " is not cuDNN's"};
  const auto number = static_cast<int>(version());
  if (number < oldest) {
    return {std::nullopt, "cuDNN " + version_text(number) + " is older than " + version_text(oldest) +
                              ", the first that can be used"};
  }
  // The frontend clears and copies through the runtime's library, which it looks for itself.
  if (dlopen(runtime, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return {std::nullopt, std::string("cuDNN needs the CUDA runtime: ") + dlerror()};
  }
  cudnn_frontend::cudnn_dlhandle = handle;
  return {Library{number, version_text(number)}, {}};
}

void require(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  const auto text = function<decltype(cudnnGetErrorString)>("cudnnGetErrorString");
  throw Error(std::string("cuDNN: cannot ") + what + ": " + (text != nullptr ? text(code) : "unknown failure"));
}

}  // namespace

const Library* library(std::string& why) {
  static const Loaded loaded = load();
  if (!loaded.library) why = loaded.why;
  return loaded.library ? &*loaded.library : nullptr;
}

OwnedHandle::OwnedHandle(void* stream) {
  cudnnHandle_t handle = nullptr;
  require(function<decltype(cudnnCreate)>("cudnnCreate")(&handle), "start");
  handle_ = handle;
  const cudnnStatus_t code =
      function<decltype(cudnnSetStream)>("cudnnSetStream")(handle, static_cast<cudaStream_t>(stream));
  if (code != CUDNN_STATUS_SUCCESS) function<decltype(cudnnDestroy)>("cudnnDestroy")(handle);
  require(code, "use a stream");
}

OwnedHandle::~OwnedHandle() { function<decltype(cudnnDestroy)>("cudnnDestroy")(static_cast<cudnnHandle_t>(handle_)); }

}  // namespace orrery::cudnn
