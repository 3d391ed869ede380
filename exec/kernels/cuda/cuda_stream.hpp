#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "exec/device/device.hpp"
#include "exec/device/host_calls.hpp"
#include "exec/kernels/cuda/cuda_check.hpp"
#include "exec/kernels/cuda/cudnn/fused_attention.hpp"
#include "exec/kernels/cuda/launch.hpp"

/// Streams and events of a GPU.
namespace orrery::cuda {

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

[[nodiscard]] inline cudaEvent_t get(const DeviceEvent& e) { return static_cast<const Event&>(e).get(); }

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
  /// `own_kernels`: nothing is left to libraries.
  Stream(bool urgent, std::uint64_t shared_limit, int capability, bool own_kernels, cudnn::AttentionNotes& attention,
         ProductNotes& products)
      : stream_(urgent), kernels_(stream_.get(), shared_limit, own_kernels, products) {
    if (!own_kernels) attention_.emplace(stream_.get(), capability, attention);
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
    if (attention_ && attention_->run(kernel, operands, kernels_)) {
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

}  // namespace orrery::cuda
