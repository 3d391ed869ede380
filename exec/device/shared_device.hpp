#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/comm/collective_algorithms.hpp"
#include "exec/device/device.hpp"
#include "exec/device/device_transport.hpp"

namespace orrery {

/// Events of one list, handed out one after the other, and again in the next list.
class EventSupply {
 public:
  explicit EventSupply(Device& device) : device_(device) {}
  [[nodiscard]] DeviceEvent& next();
  /// Nothing waits any longer for the events handed out before.
  void begin_again() { used_ = 0; }

 private:
  Device& device_;
  std::vector<std::unique_ptr<DeviceEvent>> events_;
  std::size_t used_ = 0;
};

/// Collectives and exchanges of ranks that are threads of this process on one
/// device.
///
/// Ranks tell each other, over the communicator, where their operands lie and
/// which events to wait for; then each gives its share of the work to its own
/// stream.  Threads meet twice, before the work is given and after, but never
/// wait for the device.  Sums have the order and the roundings of the host's
/// rings (collective_algorithms.hpp), so that all members hold the same bits as
/// there.
///
/// Every wait is for an event that was recorded before the wait was given, so
/// the device cannot deadlock, whatever it runs at the same time.
class SharedDevice final : public DeviceTransport {
 public:
  SharedDevice(Device& device, Communicator& communicator) : events_(device), communicator_(communicator) {}

  /// `start` is recorded when the stream has waited for all members.  Throws Aborted, or Error for more members than
  /// one kernel takes.
  void collective(const Collective&, const Members&, std::span<const MemoryView>, DeviceStream&,
                  DeviceEvent& start) override;
  void exchange(std::span<const DeviceTransfer>, DeviceStream&, DeviceEvent& start) override;

  /// Called when the last list has ended on the device.
  void begin_again() override { events_.begin_again(); }

 private:
  EventSupply events_;
  Communicator& communicator_;
  CollectiveScratch scratch_;
};

}  // namespace orrery
