#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "edit/lesson.hpp"

namespace orrery {

/// Tries every plan that a lesson names in its steps, options, numbers and solutions, from the plan that it starts
/// with; returns the number of plans. An impossible plan gives a diagnostic at the change that cannot be made, with the
/// step and the reason (lesson.change).
std::size_t try_lesson_plans(const Lesson&, const PlannedRun& start, Diagnostics&);

}  // namespace orrery
