#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// The device that leaves a class of ranks least room: of the devices that its ranks are on, the kind with the least
/// memory.
struct ClassDevice {
  std::uint32_t kind = 0;  ///< of its node (core/spec/node_kinds.hpp)
  std::uint64_t memory = 0;  ///< bytes; 0: unknown
};

/// One for every class of the Program.  Follows the plan's placement; without a cluster all are unknown.
[[nodiscard]] std::vector<ClassDevice> class_devices(const PlannedRun&, const Program&);

/// Fills the capacities of the report, whose memory_by_stage has an entry for every class, and judges its tensors by
/// them: `fits` stays as it is where each peak lies within its device.
void add_device_room(Report&, const PlannedRun&, const Program&);

}  // namespace orrery
