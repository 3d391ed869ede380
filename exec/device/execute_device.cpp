#include "exec/device/execute_device.hpp"

#include <fmt/format.h>

#include "core/base/units_text.hpp"
#include "exec/device/device_runner.hpp"
#include "exec/device/nccl_transport.hpp"
#include "exec/device/shared_device.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/run_threads.hpp"

namespace orrery {
namespace {

/// The options that hold for every run on a device.
RunOptions on_streams(const RunOptions& options) {
  RunOptions lanes = options;
  lanes.concurrent_lanes = true;
  lanes.poison = false;
  return lanes;
}

/// The reason why a rank's steps cannot be graphs; empty where they can.
std::string graphs_hindered(const Program& program) {
  if (program.mesh.size() > 1) return "ranks communicate during a step, and the host has to wait for them";
  for (const Buffer& b : program.buffers) {
    if (b.tier == Tier::disk) return "a graph cannot hold copies to and from the disk";
  }
  return "";
}

DeviceRun finished(RunResult result, const Device& device, const DeviceNotes& kernels, const std::string& meeting,
                   Issue issue, const std::string& why_not) {
  DeviceRun run;
  run.result = std::move(result);
  run.result.cores = {};  // the device, not cores, sets the pace
  run.result.streams = true;
  const DeviceInfo& info = device.info();
  run.result.fp8_products = info.fp8;
  run.notes.push_back(fmt::format("on {} ({})", info.name, info.software));
  if (!meeting.empty()) run.notes.push_back(meeting);
  for (const std::string& note : device.notes()) run.notes.push_back(note);
  if (issue == Issue::graphs) {
    const DeviceNotes::Graphs graphs = kernels.graphs();
    run.notes.push_back(!why_not.empty()
                            ? "no step was given to the device as a graph: " + why_not
                            : fmt::format("given to the device as a graph each: {} steps; the graph was built {} times",
                                          graphs.steps, graphs.built));
  }
  // Less is what the driver rounds up.
  if (const std::uint64_t beside = kernels.beside_bytes(); beside >= std::uint64_t{16} << 20) {
    run.notes.push_back(
        fmt::format("{} of the device's memory went to others than the ranks' own pools: NCCL's buffers, "
                    "libraries, other processes",
                    short_text(Bytes::of(static_cast<double>(beside)))));
  }
  if (const auto names = kernels.host_kernels(); !names.empty()) {
    run.notes.push_back(
        fmt::format("computed by the host, because the device has no kernel: {}", fmt::join(names, ", ")));
  }
  for (const auto& [elements, bytes] : kernels.odd_rows()) {
    const std::uint64_t chunk = 16 / bytes;
    run.notes.push_back(
        fmt::format("products with rows of {} elements in {} bits: not all begin at multiples of 16 bytes, as those of "
                    "{} would; the library is told so, and may choose a slower algorithm; no GPU has timed it",
                    elements, 8 * bytes, (elements + chunk - 1) / chunk * chunk));
  }
  return run;
}

}  // namespace

DeviceRun execute_on_device(Device& device, const std::string& origin, const Program& program, const Workload& workload,
                            const DataSource& data, const RunOptions& options, Issue issue) {
  DeviceNotes notes;
  const bool graphs = issue == Issue::graphs && graphs_hindered(program).empty();
  const DeviceTransportMaker transport = [&](World&, Communicator& communicator, Rank) {
    return std::make_unique<SharedDevice>(device, communicator);
  };
  ThreadedRanks ranks;
  ranks.origin = origin;
  ranks.make = [&](World& world, Rank rank, const RankOptions& how) {
    return std::make_unique<DeviceRunner>(device, notes, transport, program, workload, data, world, rank, how,
                                          options.watchdog, graphs);
  };
  const std::uint64_t count = program.mesh.size();
  return finished(
      run_threads(program, on_streams(options), ranks), device, notes,
      count == 1 ? ""
                 : fmt::format("{} ranks share one device: their kernels take turns, and messages are copies inside "
                               "its memory, so times are not those of as many devices",
                               count),
      issue, graphs_hindered(program));
}

std::optional<DeviceRun> execute_device_rank(ProcessWorld& world, Device& device, const NcclCalls& nccl,
                                             const std::string& origin, const Program& program,
                                             const Workload& workload, const DataSource& data,
                                             const RunOptions& options, Recorder* recorder, Issue issue) {
  DeviceNotes notes;
  const DeviceTransportMaker transport = [&](World& w, Communicator& communicator, Rank rank) {
    return std::make_unique<NcclTransport>(nccl, device, program, w, communicator, rank, options.watchdog);
  };
  auto result = execute_rank(world, program, on_streams(options), origin, recorder, [&](const RankOptions& how) {
    return std::make_unique<DeviceRunner>(device, notes, transport, program, workload, data, world, world.rank(), how,
                                          options.watchdog);
  });
  if (!result) return std::nullopt;
  const std::string hindered = graphs_hindered(program);
  return finished(*std::move(result), device, notes,
                  fmt::format("{} processes, each with a device; messages by NCCL {}", program.mesh.size(),
                              nccl_version_text(nccl.version)),
                  issue, hindered.empty() ? "the launcher of processes follows the run op by op" : hindered);
}

}  // namespace orrery
