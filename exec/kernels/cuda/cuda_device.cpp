#include "exec/kernels/cuda/cuda_device.hpp"

#include "exec/kernels/cuda/cuda_check.hpp"
#include "exec/kernels/cuda/cuda_graph.hpp"
#include "exec/kernels/cuda/cuda_stream.hpp"
#include "exec/kernels/cuda/matrix_products.hpp"
#include "exec/kernels/device/has_kernel.hpp"

namespace orrery::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class Gpu final : public Device {
 public:
  explicit Gpu(int number) : number_(number) {
    use();
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, number), "ask what the GPU is");
    if (properties.major < 8) {
      throw Error(std::string(properties.name) + " has compute capability " + std::to_string(properties.major) + "." +
                  std::to_string(properties.minor) + "; the kernels are built for 8.0 and later");
    }
    capability_ = 10 * properties.major + properties.minor;
    shared_limit_ = properties.sharedMemPerBlockOptin - 1024;  // less what a body's sums need
    int driver = 0, runtime = 0;
    require(cudaDriverGetVersion(&driver), "ask for the driver's version");
    require(cudaRuntimeGetVersion(&runtime), "ask for the runtime's version");
    info_ = {properties.name,
             "CUDA " + version_text(runtime) + ", driver for " + version_text(driver),
             properties.totalGlobalMem,
             free_bytes(),
             MatrixProducts::takes_fp8(properties.major, properties.minor),
             identity_of(number_)};
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::vector<std::string> notes() const override {
    std::vector<std::string> all = attention_.lines();
    for (std::string& line : products_.lines()) all.push_back(std::move(line));
    return all;
  }
  void use() override { require(cudaSetDevice(number_), "use the GPU"); }
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override {
    return taken([&](void** p) { return cudaMalloc(p, bytes); }, "take GPU memory");
  }
  void release(std::byte* p) override { cudaFree(p); }
  [[nodiscard]] std::uint64_t free_bytes() override {
    std::size_t free = 0, total = 0;
    require(cudaMemGetInfo(&free, &total), "ask for free memory");
    return free;
  }
  [[nodiscard]] std::byte* allocate_host(std::uint64_t bytes) override {
    return taken([&](void** p) { return cudaHostAlloc(p, bytes, cudaHostAllocPortable); }, "take pinned memory");
  }
  void release_host(std::byte* p) override { cudaFreeHost(p); }
  [[nodiscard]] std::unique_ptr<DeviceStream> make_stream(bool urgent) override {
    return std::make_unique<Stream>(urgent, shared_limit_, capability_, own_kernels_, attention_, products_);
  }
  void keep_to_own_kernels(bool own) override { own_kernels_ = own; }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(); }
  [[nodiscard]] std::unique_ptr<DeviceGraph> make_graph() override { return std::make_unique<Graph>(); }
  [[nodiscard]] bool done(const DeviceEvent& e) override {
    const cudaError_t code = cudaEventQuery(get(e));
    if (code == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // else the thread's next launch may take it for a failure of its own
      return false;
    }
    require(code, "go on: an earlier kernel failed");
    return true;
  }
  [[nodiscard]] double seconds_between(const DeviceEvent& first, const DeviceEvent& second) override {
    float milliseconds = 0.0F;
    require(cudaEventElapsedTime(&milliseconds, get(first), get(second)), "read the time of an event");
    return static_cast<double>(milliseconds) * 1e-3;
  }
  [[nodiscard]] bool runs(const Kernel& k, std::span<const Operand> operands) const override {
    return device::has_kernel(k, operands);
  }

 private:
  /// Null where there is no memory left.
  template <class Take>
  static std::byte* taken(Take take, const char* what) {
    void* p = nullptr;
    const cudaError_t code = take(&p);
    if (code == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // it is no failure of what comes next
      return nullptr;
    }
    require(code, what);
    return static_cast<std::byte*>(p);
  }
  int number_;
  std::uint64_t shared_limit_ = 0;
  int capability_ = 0;
  bool own_kernels_ = false;
  cudnn::AttentionNotes attention_;
  ProductNotes products_;
  DeviceInfo info_;
};

}  // namespace

int count_devices(std::string& why) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    why = driver == 0 ? "there is no NVIDIA driver"
                      : "the NVIDIA driver is for CUDA " + version_text(driver) +
                            ", but this orrery needs one for CUDA " + version_text(runtime) + " or later";
  } else if (code == cudaErrorStubLibrary) {
    why = "libcuda.so.1 is the CUDA Toolkit's stub, not the NVIDIA driver's library";
  } else if (code == cudaSuccess || code == cudaErrorNoDevice) {
    why = "there is no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides all of them";
  } else {
    why = std::string("CUDA does not start: ") + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")";
  }
  return 0;
}

std::string identity_of(int number) {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, number), "ask which GPU it is");
  std::string digits;
  for (const char c : properties.uuid.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

std::unique_ptr<Device> open_device(int number) {
  std::string why;
  const int count = count_devices(why);
  if (count == 0) throw Error("no GPU to run on: " + why);
  if (number < 0 || number >= count) {
    throw Error("no GPU " + std::to_string(number) + ": there are " + std::to_string(count) + ", counted from 0");
  }
  return std::make_unique<Gpu>(number);
}

}  // namespace orrery::cuda
