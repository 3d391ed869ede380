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

/// The answer of a person: the number of an option, a number, or the current plan.
using LessonAnswer = std::variant<std::size_t, double, std::shared_ptr<const PricedRun>>;

struct Verdict {
  bool right = false;
  std::string text;  ///< the reason, with the numbers; for a wrong answer a hint that gives nothing away
};

/// Judges an answer by predictions made now. `base` is the plan of the lesson's step. Throws Error where the lesson
/// itself is wrong: a plan that it names is impossible, or two options are equally good.
[[nodiscard]] Verdict judged(const LessonQuestion&, const PlannedRun& base, const LessonAnswer&, const Pricer&);

/// The values behind a question: one for each option, or the right number alone. They are for a person who gives up,
/// and for tests.
[[nodiscard]] std::vector<double> measured_answers(const LessonQuestion&, const PlannedRun& base, const Pricer&);

}  // namespace orrery::gui
