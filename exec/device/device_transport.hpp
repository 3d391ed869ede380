#pragma once

#include <cstdint>
#include <span>

#include "exec/comm/collective_algorithms.hpp"
#include "exec/device/device.hpp"

namespace orrery {

/// One message of an Exchange, in the memory of a device.
struct DeviceTransfer {
  bool send = true;
  Rank peer{};
  std::uint64_t tag = 0;
  std::uint8_t channel = 0;
  std::uint32_t sender = 0;  ///< the sender's place in the transfer's group
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// How the streams of one rank meet those of others: in the memory of a device that all of them share (SharedDevice),
/// or between devices (NcclTransport). The rank's thread uses it, and never has to wait for the device.
class DeviceTransport {
 public:
  DeviceTransport() = default;
  DeviceTransport(const DeviceTransport&) = delete;
  DeviceTransport& operator=(const DeviceTransport&) = delete;
  virtual ~DeviceTransport() = default;

  /// Called once, by every rank at the same time, before the first list.
  virtual void start() {}
  /// Gives the op to the stream; `start` is recorded where its work begins.  Throws Aborted, or Error.
  virtual void collective(const Collective&, const Members&, std::span<const MemoryView>, DeviceStream&,
                          DeviceEvent& start) = 0;
  virtual void exchange(std::span<const DeviceTransfer>, DeviceStream&, DeviceEvent& start) = 0;
  /// Called while the device is waited for: throws where it will never end, since a partner is gone.
  virtual void look() {}
  /// Called when the run fails: ends at once the waits of the device that would be in vain.
  virtual void abort() {}
  /// Called when the last list has ended on the device.
  virtual void begin_again() = 0;
  /// Device memory that it took in addition to the Program's buffers.
  [[nodiscard]] virtual std::uint64_t scratch_bytes() const { return 0; }
};

}  // namespace orrery
