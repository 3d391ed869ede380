#include "edit/lesson_plans.hpp"

#include <fmt/format.h>

namespace orrery {

namespace {

/// The position of the first change that cannot be made after those before it. Requires that `changes` cannot all be
/// made.
Position first_refused(const PlannedRun& from, const std::vector<LessonChange>& changes) {
  std::vector<LessonChange> made;
  std::string why;
  for (const LessonChange& c : changes) {
    made.push_back(c);
    if (!with_changes(from, made, why)) return c.where;
  }
  return {};
}

}  // namespace

std::size_t try_lesson_plans(const Lesson& lesson, const PlannedRun& start, Diagnostics& d) {
  std::size_t tried = 0;
  std::size_t number = 0;  // of the step
  const auto attempt = [&](const PlannedRun& from, const std::vector<LessonChange>& changes, std::string_view what) {
    std::string why;
    auto run = with_changes(from, changes, why);
    ++tried;
    if (!run) {
      d.error_at(lesson.origin, first_refused(from, changes), "lesson.change",
                 fmt::format("step {}: {} is not valid: {}", number, what, why));
    }
    return run;
  };
  for (const LessonStep& step : lesson.steps) {
    ++number;
    const auto base = attempt(start, step.changes, "its plan");
    if (!base || !step.question) continue;
    const LessonQuestion& q = *step.question;
    switch (q.kind) {
      case LessonQuestion::Kind::which:
        for (const LessonOption& o : q.options) attempt(*base, o.changes, fmt::format("the plan of \"{}\"", o.text));
        break;
      case LessonQuestion::Kind::number:
        attempt(*base, q.changes, "the plan whose number is asked for");
        if (q.over) attempt(*base, *q.over, "the plan that it is divided by");
        break;
      case LessonQuestion::Kind::reach: attempt(*base, q.solution, "the solution"); break;
    }
  }
  return tried;
}

}  // namespace orrery
