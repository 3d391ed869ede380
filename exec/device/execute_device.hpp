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

/// What happened in a run on a device, for its report.
struct DeviceRun {
  RunResult result;
  std::vector<std::string> notes;  ///< whole sentences
};

/// How the device gets its work.
enum class Issue : std::uint8_t {
  ops,    ///< one by one, as the list goes on
  graphs  ///< the first step so, each later one as one graph, where possible; the notes tell
};

/// As execute(), with all ranks on one device, each a thread of this process (SharedDevice says how they meet).
/// `concurrent_lanes` of the options counts as true, `poison` as false. `origin` stands in traces: "run cuda".
///
/// Losses, weights and traffic are those of the host, except for rounding: the device's kernels add up in another
/// order. A repeated run gives the same bits.
[[nodiscard]] DeviceRun execute_on_device(Device&, const std::string& origin, const Program&, const Workload&,
                                          const DataSource&, const RunOptions&, Issue = Issue::ops);

/// As execute_rank(), with the rank's lists on a device of its own. Ranks meet over NCCL, and over the world before it
/// and between steps. The result is on rank 0, and so are the notes.
[[nodiscard]] std::optional<DeviceRun> execute_device_rank(ProcessWorld&, Device&, const NcclCalls&,
                                                           const std::string& origin, const Program&, const Workload&,
                                                           const DataSource&, const RunOptions&,
                                                           Recorder* recorder = nullptr, Issue = Issue::ops);

}  // namespace orrery
