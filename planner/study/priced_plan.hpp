#pragma once

#include <cstdint>
#include <string>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/library.hpp"

namespace orrery {

// What studies share: the shipped data by name, and the way from a plan to its
// Program and Report.

/// A shipped model.  Throws Error where the data directory has none of the name.
[[nodiscard]] ModelSpec study_model(const Library&, const std::string& name);
/// A shipped cluster with `gpus` devices.  Throws Error.
[[nodiscard]] ClusterSpec study_cluster(const Library&, const std::string& name, std::uint32_t gpus);
/// A shipped device.  Throws Error.
[[nodiscard]] DeviceSpec study_device(const Library&, const std::string& name);
/// The shipped constants of a device.  Throws Error.
[[nodiscard]] Calibration study_calibration(const Library&, const DeviceSpec&);

/// Workload of a study: 16-bit Adam with 16 bytes of state for each parameter
/// (2 weight, 2 gradient, 4 master, 4 + 4 moments), no clipping, no dropout.
[[nodiscard]] Workload study_workload(std::uint64_t batch, std::uint64_t sequence);

/// A plan with its Program and the estimate of it.
struct PricedPlan {
  PlannedRun run;  ///< resolved
  Program program;
  Report report;
};

/// Checks, resolves, lowers and estimates.  `cluster` has as many devices as
/// the plan has ranks.  Throws Error, with the diagnostics, where the plan is
/// not valid: a study's plans are.
[[nodiscard]] PricedPlan priced(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&, Plan);

/// Bytes of state (weights, masters, gradients, moments), mean over ranks.
[[nodiscard]] double mean_state_bytes(const Report&);

/// Bytes that layer `layer` keeps of one microbatch on a rank of its stage,
/// statistics left out as in Korthikanti et al.
[[nodiscard]] double saved_layer_bytes(const Program&, std::uint32_t layer);

}  // namespace orrery
