#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// A kind of device that ranks of a class are on.
struct ClassDevice {
  std::uint32_t kind = 0;    ///< of its node (core/spec/node_kinds.hpp)
  std::uint64_t memory = 0;  ///< bytes; 0: unknown
};

/// The kinds of every class of the Program, each once.  Follows the plan's placement; without a cluster there is one of
/// unknown memory.
[[nodiscard]] std::vector<std::vector<ClassDevice>> class_devices(const PlannedRun&, const Program&);

/// Fills the capacities of the report, whose memory_by_stage has an entry for every class, with the least of its
/// devices, and judges its tensors by them: `fits` stays as it is where each peak lies within its device.
void add_device_room(Report&, const PlannedRun&, const Program&);

}  // namespace orrery
