#pragma once

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/report.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {

/// Whether something of the plan lives or waits off the device.
[[nodiscard]] bool offloads(const Plan&);

/// Looks for the fewest eighths of activations in host memory with which a plan fits.  Keeps its storage.
///
/// The copies of one eighth more are added to those that are there, with what waits for them, and nothing is taken
/// away: with the order of operations fixed the estimate is a longest path, so the first eighths that fit have the
/// shortest step of all that do (docs/planner.md).
class FewestOffloaded {
 public:
  /// Sets the plan's offload_activations, which is at least 1, and `program` to the plan's; false where no
  /// eighths make its tensors fit in `capacity`.  Begins with what the bounder says that it needs at least.
  [[nodiscard]] bool find(PlannedRun&, Program& program, std::uint64_t capacity, Bounder&);
  /// Whether tensors fit, `capacity` of them on a device, and the hosts and disks of the run's cluster.
  [[nodiscard]] bool fits(const PlannedRun&, const Program&, std::uint64_t capacity);
  /// Bytes on the fullest rank's device.
  [[nodiscard]] std::uint64_t peak(const Program&);

 private:
  LiveMemory memory_;
};

}  // namespace orrery
