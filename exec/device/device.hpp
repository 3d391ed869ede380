#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/kernels/device/reduction_share.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery {

struct DeviceInfo {
  std::string name;                ///< "NVIDIA H100 80GB HBM3"
  std::string software;            ///< "CUDA 13.0, driver 13.0"
  std::uint64_t memory_bytes = 0;  ///< of the whole device
  std::uint64_t free_bytes = 0;    ///< when it was opened
  bool fp8 = false;                ///< products in fp8 are made so; else in bf16
  std::string identity{};          ///< which GPU in the world it is: 32 digits of its UUID; empty: none
};

/// A mark in a stream's work. When it is recorded anew, it stands for the new place.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  virtual ~DeviceEvent() = default;
};

/// Work that a device does in the order in which it was given. Used by one thread; nothing here waits for the device.
class DeviceStream {
 public:
  DeviceStream() = default;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  virtual ~DeviceStream() = default;

  virtual void record(DeviceEvent&) = 0;
  /// Later work begins when the event, as last recorded, is done; at once where it never was recorded.
  virtual void wait(const DeviceEvent&) = 0;
  /// Copies between any two of host and device.
  virtual void copy(void* to, const void* from, std::uint64_t bytes) = 0;
  /// Calls `work` on a host thread; it may not use the device.
  virtual void call(std::function<void()> work) = 0;
  /// Requires that the device runs the kernel.
  virtual void run(const Kernel&, std::span<const Operand>, const KernelContext&) = 0;
  virtual void reduce(const ReductionShare&) = 0;
  /// The stream as the device's own libraries know it: a cudaStream_t, or a HostStreamHandle.
  [[nodiscard]] virtual void* native() = 0;
  /// Device memory that kernels of this stream use in addition to their operands.
  [[nodiscard]] virtual std::uint64_t scratch_bytes() const = 0;
};

/// Work of several streams that the device gets at once (a CUDA graph), so that it need not wait for the host between
/// two kernels. Only the streams' thread uses it.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// From here on, work given to the streams is gathered and not begun. Requires that all earlier work of theirs has
  /// ended. The first time, each kind of work should have been done once, so that it already has the memory that it
  /// takes for itself.
  virtual void begin(std::span<DeviceStream* const> streams) = 0;
  /// The device does the gathered work, and the streams take further work, which comes after it. Returns whether the
  /// graph had to be built anew, because its work has another shape than what was gathered before. An event of it that
  /// was recorded before may seem done until the device comes to it; one that is recorded in the first stream from now
  /// on tells.
  virtual bool launch() = 0;
  /// Called instead of launch(): none of the work is done.
  virtual void drop() noexcept = 0;
};

/// A device as the executor sees it: memory, streams and events. It is a GPU, or threads of the host that behave like
/// one (HostDevice), on which the tests run everything except the GPU's own calls.
///
/// Several threads may use it, each after use(). Failures of the device are Errors.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  /// What the work so far was done with, a sentence each, for people.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  /// Makes the calling thread work with this device.
  virtual void use() = 0;
  /// Null where no memory is left.
  [[nodiscard]] virtual std::byte* allocate(std::uint64_t bytes) = 0;
  virtual void release(std::byte*) = 0;
  /// Memory that is free now; other processes may take it, too.
  [[nodiscard]] virtual std::uint64_t free_bytes() = 0;
  /// Memory of the host, such that copies run beside compute.
  [[nodiscard]] virtual std::byte* allocate_host(std::uint64_t bytes) = 0;
  virtual void release_host(std::byte*) = 0;
  /// The device gives free multiprocessors to work of an urgent stream first: to messages, which others wait for.
  [[nodiscard]] virtual std::unique_ptr<DeviceStream> make_stream(bool urgent) = 0;
  /// Whether streams that are made from now on compute everything with our own kernels, also what a library that is
  /// there has ready (attention, matrix products): for comparisons. At first they do not.
  virtual void keep_to_own_kernels(bool) {}
  [[nodiscard]] virtual std::unique_ptr<DeviceEvent> make_event() = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceGraph> make_graph() = 0;
  /// Whether the work before the event has ended.
  [[nodiscard]] virtual bool done(const DeviceEvent&) = 0;
  /// Requires that both are done.
  [[nodiscard]] virtual double seconds_between(const DeviceEvent& first, const DeviceEvent& second) = 0;
  /// Whether the device has the kernel; the host computes the kernels that it lacks.
  [[nodiscard]] virtual bool runs(const Kernel&, std::span<const Operand>) const = 0;
};

}  // namespace orrery
