#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "edit/lesson.hpp"

namespace orrery {

/// Tries every plan that a lesson names, of its steps, options, numbers and solutions, from the plan that it starts
/// with; the number of plans.  One that cannot be is a diagnostic at the change that cannot be made, with the step and
/// the reason (lesson.change).
std::size_t try_lesson_plans(const Lesson&, const PlannedRun& start, Diagnostics&);

}  // namespace orrery
