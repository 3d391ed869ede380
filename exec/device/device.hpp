#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

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

/// A mark in a stream's work.  Recorded anew, it means the new place.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  virtual ~DeviceEvent() = default;
};

/// Work that a device does in the order in which it was given.  Used by one
/// thread; nothing here waits for the device.
class DeviceStream {
 public:
  DeviceStream() = default;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  virtual ~DeviceStream() = default;

  virtual void record(DeviceEvent&) = 0;
  /// What follows begins when the event, as last recorded, is done; at once where it never was.
  virtual void wait(const DeviceEvent&) = 0;
  /// Between any two of host and device.
  virtual void copy(void* to, const void* from, std::uint64_t bytes) = 0;
  /// Calls `work` on a host thread; it may not use the device.
  virtual void call(std::function<void()> work) = 0;
  /// Requires that the device runs the kernel.
  virtual void run(const Kernel&, std::span<const Operand>, const KernelContext&) = 0;
  virtual void reduce(const ReductionShare&) = 0;
  /// What the device's own libraries call it: a cudaStream_t, or a HostStreamHandle.
  [[nodiscard]] virtual void* native() = 0;
  /// Device memory that kernels of this stream use besides their operands.
  [[nodiscard]] virtual std::uint64_t scratch_bytes() const = 0;
};

/// Work of several streams that the device is given at once (a CUDA graph), so that it need not wait for the host
/// between two kernels.  Used by the thread of the streams.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  virtual ~DeviceGraph() = default;

  /// From here on, what the streams are given is gathered and not begun.  Requires that all earlier work of theirs has
  /// ended.  The first time, each kind of work should have been done once: what it takes for itself it has then.
  virtual void begin(std::span<DeviceStream* const> streams) = 0;
  /// The device does what was gathered, the streams take work again, after it; whether the graph had to be built anew,
  /// since its work has not the shape of what was gathered before.  An event of it that was recorded before may seem
  /// done until the device comes to it: one recorded in the first stream from now on tells.
  virtual bool launch() = 0;
  /// Instead of launch(): nothing of it is done.
  virtual void drop() noexcept = 0;
};

/// A device as the executor sees it: memory, streams and events (a GPU), or
/// threads of the host that behave like one (HostDevice), on which the tests
/// run everything but the GPU's own calls.
///
/// May be used by several threads, each after use().  Failures of the device
/// are Errors.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  /// The calling thread works with this device.
  virtual void use() = 0;
  /// Null where there is no memory left.
  [[nodiscard]] virtual std::byte* allocate(std::uint64_t bytes) = 0;
  virtual void release(std::byte*) = 0;
  /// Of the host, such that copies run beside it.
  [[nodiscard]] virtual std::byte* allocate_host(std::uint64_t bytes) = 0;
  virtual void release_host(std::byte*) = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceStream> make_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceEvent> make_event() = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceGraph> make_graph() = 0;
  /// Whether what came before the event has ended.
  [[nodiscard]] virtual bool done(const DeviceEvent&) = 0;
  /// Requires that both are done.
  [[nodiscard]] virtual double seconds_between(const DeviceEvent& first, const DeviceEvent& second) = 0;
  /// Whether it has the kernel; the host computes what it has not.
  [[nodiscard]] virtual bool runs(const Kernel&, std::span<const Operand>) const = 0;
};

}  // namespace orrery
