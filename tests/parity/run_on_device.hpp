#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/execute_device.hpp"
#include "exec/device/host_device.hpp"
#include "tests/oracle/numerics/check_numerics.hpp"
#include "tests/support/device_under_test.hpp"

/// The whole path of a GPU's run except the GPU: streams and events, the transport of ranks that share a device, pools
/// in stream order, the kernel bodies, kernels on the host. A device of threads stands for the GPU; the program
/// gpu_runs has the same cases on a GPU, and is skipped where there is none.
namespace orrery::test {

/// The GPU, or threads that behave like one.
class UnderTest {
 public:
  [[nodiscard]] Device& operator*() {
    if (Device* gpu = gpu_under_test()) return *gpu;
    if (!host_) host_ = std::make_unique<HostDevice>();
    return *host_;
  }

 private:
  std::unique_ptr<HostDevice> host_;
};

/// The kernels that a run's notes say the host has computed, without those that read no tensor: data and first
/// weights.
inline std::set<std::string> tensors_on_host(const std::vector<std::string>& notes) {
  const std::string begins = "computed by the host, because the device has no kernel: ";
  std::set<std::string> kernels;
  for (const std::string& note : notes) {
    if (note.rfind(begins, 0) != 0) continue;
    for (std::size_t at = begins.size(); at < note.size();) {
      const std::size_t comma = std::min(note.find(", ", at), note.size());
      kernels.insert(note.substr(at, comma - at));
      at = comma + 2;
    }
  }
  for (const char* kernel : {"load_tokens", "load_targets", "load_segments", "load_patches", "count_targets",
                             "initialize", "initialize_scale"}) {
    kernels.erase(kernel);
  }
  return kernels;
}

inline NumericsOptions on_device(Device& device, const PlannedRun& run) {
  NumericsOptions options;
  options.ignored = 0.1;
  options.execute = [&](const Program& program, const DataSource& data, const RunOptions& how) {
    DeviceRun done = execute_on_device(device, "run device", program, run.workload, data, how);
    CHECK(tensors_on_host(done.notes) == std::set<std::string>{});
    return std::move(done.result);
  };
  return options;
}

inline std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

}  // namespace orrery::test
