#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "edit/lesson.hpp"
#include "gui/model/measured.hpp"
#include "gui/model/prediction.hpp"

namespace orrery::gui {

/// Gives a run its prices; null where there are none.
using Pricer = std::function<std::shared_ptr<const PricedRun>(PlannedRun)>;

/// What a person answers: the number of an option, a number, or the plan in hand.
using LessonAnswer = std::variant<std::size_t, double, std::shared_ptr<const PricedRun>>;

struct Verdict {
  bool right = false;
  std::string text;  ///< why, with the numbers; of a wrong answer a hint that gives nothing away
};

/// Judges an answer by predictions made now.  `base` is the plan of the step.  Throws Error where the lesson itself
/// is wrong: a plan that it names cannot be, or two options are equally good.
[[nodiscard]] Verdict judged(const LessonQuestion&, const PlannedRun& base, const LessonAnswer&, const Pricer&);

/// What the question's numbers are: of each option, or the right number alone.  For who gives up, and for tests.
[[nodiscard]] std::vector<double> measured_answers(const LessonQuestion&, const PlannedRun& base, const Pricer&);

}  // namespace orrery::gui
