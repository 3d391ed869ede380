#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/dimension.hpp"

// The changes that a lesson makes to a plan, and the plan after them.

namespace orrery {

/// One change of a lesson: a dimension ("mesh.tensor 4", "plan.schedule zb-v"), or the order of axes, outermost first
/// ("mesh.order data pipeline tensor").
struct LessonChange {
  const Dimension* dimension = nullptr;
  std::uint64_t value = 0;
  std::vector<Axis> order;  ///< where there is no dimension
  Position where = {};      ///< in the lesson's file
};
/// Empty where the text is no change; `why` then says which texts are.
[[nodiscard]] std::optional<LessonChange> plan_change(const std::string& text, std::string& why);

/// The run with these changes, made one after another as a person would make them. Empty, with the reason, where one
/// cannot be made, or where a later one undoes it.
[[nodiscard]] std::optional<PlannedRun> with_changes(PlannedRun, const std::vector<LessonChange>&, std::string& why);

/// The same axes in another order, outermost first: the axes of `order` come first, then the others. Ranks then lie by
/// the mesh alone.
[[nodiscard]] PlannedRun in_order(PlannedRun, const std::vector<Axis>& order);

/// The run with the ranks of two devices exchanged; one of the devices may be idle. Empty, with the reason, where both
/// are idle, or where a device is not in the plan's cluster.
[[nodiscard]] std::optional<PlannedRun> with_swapped_devices(PlannedRun, std::uint32_t one, std::uint32_t other,
                                                             std::string& why);

}  // namespace orrery
