#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/comm/nccl_calls.hpp"
#include "exec/comm/world.hpp"
#include "exec/device/device.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/recorder.hpp"

namespace orrery {

/// What a run on a device was, for its report.
struct DeviceRun {
  RunResult result;
  std::vector<std::string> notes;  ///< whole sentences
};

/// How the device is given the work.
enum class Issue : std::uint8_t {
  ops,    ///< one by one, as the list goes on
  graphs  ///< the first step so, each later one as one graph, where it can be; the notes say it
};

/// As execute(), with all ranks on one device, each a thread of this process
/// (SharedDevice says how they meet).  `concurrent_lanes` of the options is
/// taken as said, `poison` as not.  `origin` stands in traces: "run cuda".
///
/// Losses, weights and traffic are those of the host, but for rounding: the
/// device's kernels add up in another order.  Repeated, a run gives the same bits.
[[nodiscard]] DeviceRun execute_on_device(Device&, const std::string& origin, const Program&, const Workload&,
                                          const DataSource&, const RunOptions&, Issue = Issue::ops);

/// As execute_rank(), with the rank's lists on a device of its own; ranks meet
/// over NCCL, and over the world before it and between steps.  The result is
/// rank 0's, as are the notes.
[[nodiscard]] std::optional<DeviceRun> execute_device_rank(ProcessWorld&, Device&, const NcclCalls&,
                                                           const std::string& origin, const Program&, const Workload&,
                                                           const DataSource&, const RunOptions&,
                                                           Recorder* recorder = nullptr, Issue = Issue::ops);

}  // namespace orrery
