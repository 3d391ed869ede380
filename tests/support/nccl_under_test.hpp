#pragma once

#include <catch2/catch.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/nccl_calls.hpp"
#include "exec/device/device_runner.hpp"
#include "exec/device/host_device.hpp"
#include "exec/device/nccl_transport.hpp"
#include "exec/run/run_threads.hpp"
#include "tests/support/program_run.hpp"

namespace orrery::test {

/// The stand-in for NCCL, whose ranks meet in a folder of their own. The test fails where its rules were broken.
class NcclUnderTest {
 public:
  explicit NcclUnderTest(const std::string& library) {
    setenv("ORRERY_NCCL_STAND_IN_FOLDER", folder_.file("").c_str(), 1);
    calls = load_nccl(library);
    void* const open = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(open != nullptr);
    broken_rules_ = reinterpret_cast<int (*)()>(dlsym(open, "orrery_nccl_broken_rules"));
    REQUIRE(broken_rules_ != nullptr);
    broken_before_ = broken_rules_();
  }
  NcclUnderTest(const NcclUnderTest&) = delete;
  NcclUnderTest& operator=(const NcclUnderTest&) = delete;
  ~NcclUnderTest() { CHECK(broken_rules() == 0); }
  /// Number of calls of this process that NCCL forbids, whether or not their results are ignored.
  [[nodiscard]] int broken_rules() const { return broken_rules_() - broken_before_; }
  NcclCalls calls;

 private:
  TemporaryFolder folder_;
  int (*broken_rules_)() = nullptr;
  int broken_before_ = 0;
};

/// Ranks that are threads of this process, each with a device of its own, meeting over NCCL.
inline RunResult run_on_devices(const NcclCalls& nccl, const Program& program, const Workload& workload,
                                const DataSource& data, const RunOptions& options) {
  RunOptions lanes = options;
  lanes.concurrent_lanes = true;
  lanes.poison = false;
  std::vector<std::unique_ptr<HostDevice>> devices;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) devices.push_back(std::make_unique<HostDevice>());
  DeviceNotes notes;
  ThreadedRanks ranks;
  ranks.origin = "run devices";
  ranks.make = [&](World& world, Rank rank, const RankOptions& how) {
    Device& device = *devices[index(rank)];
    const DeviceTransportMaker transport = [&](World& w, Communicator& communicator, Rank r) {
      return std::make_unique<NcclTransport>(nccl, device, program, w, communicator, r, options.watchdog);
    };
    return std::make_unique<DeviceRunner>(device, notes, transport, program, workload, data, world, rank, how,
                                          options.watchdog);
  };
  return run_threads(program, lanes, ranks);
}

}  // namespace orrery::test
