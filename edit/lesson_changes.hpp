#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/dimension.hpp"

// What a lesson turns in a plan, and the plan after it.

namespace orrery {

/// One thing that a lesson turns: a dimension ("mesh.tensor 4", "plan.schedule zb-v"), or the order of axes, outermost
/// first ("mesh.order data pipeline tensor").
struct LessonChange {
  const Dimension* dimension = nullptr;
  std::uint64_t value = 0;
  std::vector<Axis> order;  ///< where there is no dimension
  Position where = {};      ///< in the lesson's file
};
/// Empty where the text says no such thing; `why` then says what it could say.
[[nodiscard]] std::optional<LessonChange> plan_change(const std::string& text, std::string& why);

/// The run with these changes, one after another as a person would make them; empty with the reason where one cannot be
/// made, or where a later one undoes it.
[[nodiscard]] std::optional<PlannedRun> with_changes(PlannedRun, const std::vector<LessonChange>&, std::string& why);

/// The same axes in another order, outermost first: those of `order` first, the rest behind.  Ranks then lie by the
/// mesh alone.
[[nodiscard]] PlannedRun in_order(PlannedRun, const std::vector<Axis>& order);

/// The run with the ranks of two devices changed round; one of them may be idle.  Empty with the reason where both are,
/// or where a device is not of the plan's cluster.
[[nodiscard]] std::optional<PlannedRun> with_swapped_devices(PlannedRun, std::uint32_t one, std::uint32_t other,
                                                             std::string& why);

}  // namespace orrery
