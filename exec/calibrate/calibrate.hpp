#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/record/calibration.hpp"
#include "core/spec/workload.hpp"
#include "exec/run/core_time.hpp"

namespace orrery {

/// What `orrery calibrate` measures, and how long it takes.
///
/// It runs the executor's own kernels and transport on this machine: matrix products over a grid of shapes, attention
/// over sequence lengths and head sizes, every other kernel as lowered Programs of several sizes call it, and messages
/// between rank threads. It also measures how much cores lose to each other when all work. It takes some ten seconds
/// for all precisions on a quiet machine.
struct CalibrateOptions {
  std::string name = "this-machine";
  std::string device = "cpu-core";
  std::vector<Precision> precisions{Precision::fp64, Precision::fp32, Precision::bf16, Precision::fp16};
  /// Called now and then with the share of the work done, in [0, 1].
  std::function<void(double)> progress;
};

struct MeasuredCalibration {
  Calibration calibration;  ///< its source says so where the machine was busy
  CoreTime cores;           ///< core time of the part in which one thread at a time works
};

/// Throws Error when threads cannot be started.
[[nodiscard]] MeasuredCalibration calibrate(const CalibrateOptions&);

/// A text such as "2 cores, Intel(R) Xeon(R) Processor, L2 2 MiB, L3 480 MiB, memory 31 GiB".
[[nodiscard]] std::string describe_machine();
/// Cores that this process may use at the same time.
[[nodiscard]] std::uint32_t usable_cores();

}  // namespace orrery
