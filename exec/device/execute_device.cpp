#include "exec/device/execute_device.hpp"

#include <fmt/format.h>

#include "exec/device/device_runner.hpp"
#include "exec/run/run_threads.hpp"

namespace orrery {

DeviceRun execute_on_device(Device& device, const std::string& origin, const Program& program, const Workload& workload,
                            const DataSource& data, const RunOptions& options) {
  RunOptions lanes = options;
  lanes.concurrent_lanes = true;
  lanes.poison = false;
  DeviceNotes notes;
  ThreadedRanks ranks;
  ranks.origin = origin;
  ranks.make = [&](World& world, Rank rank, const RankOptions& how) {
    return std::make_unique<DeviceRunner>(device, notes, program, workload, data, world, rank, how, options.watchdog);
  };
  DeviceRun run;
  run.result = run_threads(program, lanes, ranks);
  run.result.cores = {};  // the device, not cores, sets the pace
  const DeviceInfo& info = device.info();
  run.notes.push_back(fmt::format("on {} ({})", info.name, info.software));
  if (program.mesh.size() > 1) {
    run.notes.push_back(fmt::format(
        "{} ranks share one device: their kernels take turns, and messages are copies inside its memory, so times are "
        "not those of as many devices",
        program.mesh.size()));
  }
  if (const auto kernels = notes.host_kernels(); !kernels.empty()) {
    run.notes.push_back(fmt::format("computed by the host for want of a kernel: {}", fmt::join(kernels, ", ")));
  }
  return run;
}

}  // namespace orrery
