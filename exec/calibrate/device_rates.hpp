#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/record/calibration.hpp"
#include "core/spec/workload.hpp"
#include "exec/device/device.hpp"

namespace orrery {

/// The name under which models/device has a GPU, found by the name that its driver gives; empty for a GPU that is not
/// there.
[[nodiscard]] std::optional<std::string> device_file_of(const DeviceInfo&);

/// How much is measured: shapes of training on a GPU.
struct DeviceGrid {
  std::vector<std::uint64_t> rows{128, 512, 2048, 8192};
  std::vector<std::uint64_t> columns{256, 1024, 4096, 16384};
  std::vector<std::uint64_t> depths{256, 1024, 4096, 16384};
  std::vector<std::uint64_t> lengths{256, 1024, 2048};
  std::vector<std::uint64_t> head_dims{64, 128};
  std::uint64_t heads = 16, sequences = 2;  ///< of attention
  std::vector<std::uint64_t> step_hidden{256, 1024, 2048};
  std::uint64_t step_length = 1024;
  std::uint64_t copy_bytes = std::uint64_t{64} << 20;  ///< to and from the host
  double least_sample = 2e-3;                          ///< seconds of the device's clock; short work is repeated inside
  std::uint32_t samples = 5;
};

/// Small shapes: a device of threads takes seconds for them.
[[nodiscard]] DeviceGrid small_grid();

/// Does the same as calibrate() for a device's own kernels, by its own clock: matrix products and attention alone, then
/// every kernel and the gap between kernels in training steps of several sizes, and copies between it and the host.
/// `device` is the name of the device's file.
[[nodiscard]] Calibration calibrate_device(Device&, const std::string& device, const std::vector<Precision>&,
                                           const DeviceGrid& = {}, const std::function<void(double)>& progress = {});

}  // namespace orrery
