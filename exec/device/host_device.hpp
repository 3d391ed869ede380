#pragma once

#include <atomic>
#include <memory>

#include "exec/device/device.hpp"

namespace orrery {

/// native() of a HostDevice's stream points to this, for libraries that give work of their own to it.
struct HostStreamHandle {
  void* stream = nullptr;
  /// Queues `work(argument)`.
  void (*call)(void* stream, void (*work)(void*), void* argument) = nullptr;
};

/// Threads of the host that behave like a GPU: a thread for each stream, events between them, memory of its own, and
/// the GPU's kernel bodies. Code that reads or writes too early does so here, too, and the thread checks see it.
class HostDevice final : public Device {
 public:
  /// `memory_bytes` is the memory that it pretends to have; `fp8` says that it makes products in fp8.
  explicit HostDevice(std::uint64_t memory_bytes = std::uint64_t{64} << 30, bool fp8 = false);
  ~HostDevice() override;

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  void use() override {}
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override;
  void release(std::byte*) override;
  [[nodiscard]] std::uint64_t free_bytes() override { return info_.memory_bytes - taken_.load(); }
  [[nodiscard]] std::byte* allocate_host(std::uint64_t bytes) override;
  void release_host(std::byte*) override;
  [[nodiscard]] std::unique_ptr<DeviceStream> make_stream(bool urgent) override;
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override;
  [[nodiscard]] std::unique_ptr<DeviceGraph> make_graph() override;
  [[nodiscard]] bool done(const DeviceEvent&) override;
  [[nodiscard]] double seconds_between(const DeviceEvent&, const DeviceEvent&) override;
  [[nodiscard]] bool runs(const Kernel&, std::span<const Operand>) const override;

 private:
  class Event;
  class Graph;
  class Stream;
  DeviceInfo info_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace orrery
