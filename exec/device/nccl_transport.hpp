#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "core/base/units.hpp"
#include "exec/comm/nccl_communicator.hpp"
#include "exec/comm/world.hpp"
#include "exec/device/device_transport.hpp"
#include "exec/device/nccl_groups.hpp"

namespace orrery {

/// Collectives and exchanges of ranks with a device each, by NCCL.
///
/// Ranks call NCCL in the order of their lists, in which they meet without deadlock whatever the device runs at the
/// same time: a partner's list asks for its side of a call before it needs anything later. The host waits for partners
/// only until an op is given to the device.
///
/// Sums have NCCL's order, and all members hold the same bits. A span begins when this rank is ready: NCCL does not
/// tell when the last partner was.
class NcclTransport final : public DeviceTransport {
 public:
  /// `communicator` brings the ranks together before NCCL does. `limit` is the longest wait for partners.
  NcclTransport(const NcclCalls&, Device&, const Program&, World&, Communicator& communicator, Rank, Seconds limit);
  ~NcclTransport() override;

  void start() override;
  void collective(const Collective&, const Members&, std::span<const MemoryView>, DeviceStream&,
                  DeviceEvent& start) override;
  void exchange(std::span<const DeviceTransfer>, DeviceStream&, DeviceEvent& start) override;
  void look() override;
  void abort() override;
  void begin_again() override;
  [[nodiscard]] std::uint64_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  struct Scratch {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
  };
  struct Job;
  [[nodiscard]] NcclPatience patience();
  [[nodiscard]] NcclCalls::Id shared_id();
  void by_itself(const Collective&, std::span<const MemoryView>, DeviceStream&);
  /// Memory that later work of the same stream may use again.
  [[nodiscard]] std::byte* scratch(DeviceStream&, std::uint64_t bytes);
  void finish(NcclGroup&, const NcclCommunicator& on);

  const NcclCalls& calls_;
  Device& device_;
  const Program& program_;
  World& world_;
  Communicator& communicator_;
  Rank rank_;
  Seconds limit_;
  NcclGroups groups_;
  std::unique_ptr<NcclCommunicator> all_;
  std::vector<std::unique_ptr<NcclCommunicator>> parts_;                  ///< by NcclGroups::parts; null: not in one
  std::map<std::uint32_t, std::unique_ptr<NcclCommunicator>> exchanges_;  ///< by exchange_key
  std::map<DeviceStream*, Scratch> scratch_;
  std::vector<std::byte*> old_scratch_;  ///< still in use by the list
  std::uint64_t scratch_bytes_ = 0;
};

}  // namespace orrery
