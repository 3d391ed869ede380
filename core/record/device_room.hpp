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

/// The kinds of devices that every class of the Program runs on, each once. Follows the plan's placement; without a
/// cluster there is one kind, of unknown memory.
[[nodiscard]] std::vector<std::vector<ClassDevice>> class_devices(const PlannedRun&, const Program&);

/// Fills the report's capacities and judges its tensors by them: `fits` keeps its value where each peak lies within its
/// device. The report's memory_by_stage must have an entry for every class, which gets the capacity of the smallest of
/// its devices.
void add_device_room(Report&, const PlannedRun&, const Program&);

}  // namespace orrery
