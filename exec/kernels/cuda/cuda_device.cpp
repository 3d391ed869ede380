#include "exec/kernels/cuda/cuda_device.hpp"

#include <array>
#include <optional>
#include <vector>

#include "exec/device/host_calls.hpp"
#include "exec/kernels/cuda/cuda_check.hpp"
#include "exec/kernels/cuda/cudnn/fused_attention.hpp"
#include "exec/kernels/cuda/launch.hpp"
#include "exec/kernels/cuda/matrix_products.hpp"
#include "exec/kernels/device/has_kernel.hpp"
#include "exec/kernels/named_operands.hpp"

namespace orrery::cuda {
namespace {

class Event final : public DeviceEvent {
 public:
  Event() { require(cudaEventCreate(&event_), "make an event"); }
  ~Event() override {
    cudaEventDestroy(event_);
    if (within_ != nullptr) cudaEventDestroy(within_);
  }
  [[nodiscard]] cudaEvent_t get() const { return event_; }
  /// The event that stands for it between streams whose work is gathered: there, the event itself becomes a node that
  /// only tells the time.
  [[nodiscard]] cudaEvent_t within() const { return within_; }
  [[nodiscard]] cudaEvent_t make_within() {
    if (within_ == nullptr) {
      require(cudaEventCreateWithFlags(&within_, cudaEventDisableTiming), "make an event");
    }
    return within_;
  }

 private:
  cudaEvent_t event_ = nullptr, within_ = nullptr;
};

cudaEvent_t get(const DeviceEvent& e) { return static_cast<const Event&>(e).get(); }

/// Owns a cudaStream_t. It is a base class, so that the stream exists before and after everything that uses it.
class OwnedStream {
 public:
  explicit OwnedStream(bool urgent) {
    int least = 0, greatest = 0;  // a smaller number goes first
    require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "ask for the priorities of streams");
    require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least), "make a stream");
  }
  ~OwnedStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Stream final : public DeviceStream {
 public:
  /// The notes are null where attention keeps to our own kernels.
  Stream(bool urgent, std::uint64_t shared_limit, int capability, cudnn::AttentionNotes* notes)
      : stream_(urgent), kernels_(stream_.get(), shared_limit) {
    if (notes != nullptr) attention_.emplace(stream_.get(), capability, *notes);
  }
  ~Stream() override { cudaStreamSynchronize(stream_.get()); }

  void record(DeviceEvent& e) override {
    if (gathers_) {
      require(cudaEventRecordWithFlags(orrery::cuda::get(e), stream_.get(), cudaEventRecordExternal),
              "record an event in a graph");
      require(cudaEventRecord(static_cast<Event&>(e).make_within(), stream_.get()), "record an event in a graph");
      return;
    }
    require(cudaEventRecord(orrery::cuda::get(e), stream_.get()), "record an event");
  }
  void wait(const DeviceEvent& e) override {
    const cudaEvent_t event = gathers_ ? static_cast<const Event&>(e).within() : orrery::cuda::get(e);
    require(cudaStreamWaitEvent(stream_.get(), event, 0), "wait for an event");
  }
  void gather(bool on) {
    gathers_ = on;
    if (on) calls_.gather();
  }
  /// Called with what became of the gathered work.
  void launched() { calls_.launched(); }
  void dropped() { calls_.dropped(); }
  void copy(void* to, const void* from, std::uint64_t bytes) override {
    kernels_.forget();
    if (bytes > 0) require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "copy");
  }
  void call(std::function<void()> work) override {
    kernels_.forget();
    HostCall call = host_call(std::move(work));
    require(cudaLaunchHostFunc(stream_.get(), run_host_call, call.get()), "call the host");
    calls_.given(std::move(call));
  }
  void run(const Kernel& kernel, std::span<const Operand> operands, const KernelContext& context) override {
    const auto scratch = [this](std::uint64_t bytes) { return kernels_.scratch(bytes); };
    if (attention_ && attention_->run(kernel, operands, scratch)) {
      kernels_.forget();
    } else {
      kernels_.run(kernel, operands, context);
    }
  }
  void reduce(const ReductionShare& share) override { kernels_.reduce(share); }
  [[nodiscard]] void* native() override { return stream_.get(); }
  [[nodiscard]] std::uint64_t scratch_bytes() const override { return kernels_.held_bytes(); }

 private:
  OwnedStream stream_;
  KernelQueue kernels_;
  std::optional<cudnn::FusedAttention> attention_;
  HostCalls calls_;
  bool gathers_ = false;
};

/// Gathers by stream capture, from the first stream: the other streams' work comes after a mark in it, and its end
/// after theirs. The executable graph is kept, and gets new arguments (steps, addresses) as long as the shape is the
/// same.
class Graph final : public DeviceGraph {
 public:
  ~Graph() override {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }
  void begin(std::span<DeviceStream* const> streams) override {
    streams_.clear();
    for (DeviceStream* s : streams) streams_.push_back(static_cast<Stream*>(s));
    while (marks_.size() < streams_.size()) marks_.push_back(std::make_unique<Event>());
    // The mode is relaxed: this thread may take memory meanwhile, and other threads are not restricted.
    require(cudaStreamBeginCapture(queue(0), cudaStreamCaptureModeRelaxed), "begin a graph");
    require(cudaEventRecord(marks_[0]->get(), queue(0)), "begin a graph");
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      require(cudaStreamWaitEvent(queue(i), marks_[0]->get(), 0), "begin a graph");
    }
    for (Stream* s : streams_) s->gather(true);
  }
  bool launch() override {
    for (Stream* s : streams_) s->gather(false);
    for (std::size_t i = 1; i < streams_.size(); ++i) {
      require(cudaEventRecord(marks_[i]->get(), queue(i)), "end a graph");
      require(cudaStreamWaitEvent(queue(0), marks_[i]->get(), 0), "end a graph");
    }
    cudaGraph_t gathered = nullptr;
    require(cudaStreamEndCapture(queue(0), &gathered), "end a graph");
    bool anew = graph_ == nullptr;
    if (!anew) {
      cudaGraphExecUpdateResultInfo ignored{};
      if (cudaGraphExecUpdate(graph_, gathered, &ignored) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());  // another shape
        cudaGraphExecDestroy(graph_);
        graph_ = nullptr;
        anew = true;
      }
    }
    const cudaError_t made = anew ? cudaGraphInstantiate(&graph_, gathered, 0) : cudaSuccess;
    cudaGraphDestroy(gathered);
    if (made != cudaSuccess) graph_ = nullptr;
    require(made, "build a graph");
    require(cudaGraphLaunch(graph_, queue(0)), "launch a graph");
    for (Stream* s : streams_) s->launched();
    return anew;
  }
  void drop() noexcept override {
    for (Stream* s : streams_) s->gather(false);
    cudaGraph_t gathered = nullptr;
    static_cast<void>(cudaStreamEndCapture(queue(0), &gathered));
    static_cast<void>(cudaGetLastError());
    if (gathered != nullptr) cudaGraphDestroy(gathered);
    for (Stream* s : streams_) s->dropped();
  }

 private:
  [[nodiscard]] cudaStream_t queue(std::size_t i) const { return static_cast<cudaStream_t>(streams_[i]->native()); }

  std::vector<Stream*> streams_;
  std::vector<std::unique_ptr<Event>> marks_;
  cudaGraphExec_t graph_ = nullptr;
};

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
  [[nodiscard]] std::vector<std::string> notes() const override { return attention_.lines(); }
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
    return std::make_unique<Stream>(urgent, shared_limit_, capability_, own_kernels_ ? nullptr : &attention_);
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
    using N = OperandName;
    if (!device::has_kernel(k, operands)) return false;
    const NamedOperands o(k, operands);
    const auto types = [&](N a, N b, N c) {
      return o[a].dtype == o[b].dtype && MatrixProducts::takes(o[a].dtype, o[c].dtype, k.compute);
    };
    switch (k.kind) {
      case KernelKind::gemm: return types(N::a, N::b, N::c);
      case KernelKind::attention_unfused_forward:
        return types(N::qkv, N::probabilities, N::context) && o[N::qkv].dtype == o[N::context].dtype;
      case KernelKind::attention_unfused_backward:
        return types(N::dcontext, N::qkv, N::dqkv) && types(N::dcontext, N::probabilities, N::dscores) &&
               o[N::dcontext].dtype == o[N::dqkv].dtype && o[N::dcontext].dtype == o[N::dscores].dtype;
      default: return true;
    }
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
