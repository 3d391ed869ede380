#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "gui/model/lesson.hpp"
#include "gui/model/prediction.hpp"

namespace orrery::gui {

/// The run with these changes, one after another as a person would make them; empty with the reason where one cannot be
/// made, or where a later one undoes it.
[[nodiscard]] std::optional<PlannedRun> with_changes(PlannedRun, const std::vector<PlanChange>&, std::string& why);

/// The same axes in another order, outermost first: those of `order` first, the rest behind.  Ranks then lie by the
/// mesh alone.
[[nodiscard]] PlannedRun in_order(PlannedRun, const std::vector<Axis>& order);

/// The run with the ranks of two devices changed round; one of them may be idle.  Empty with the reason where both are,
/// or where a device is not of the plan's cluster.
[[nodiscard]] std::optional<PlannedRun> with_swapped_devices(PlannedRun, std::uint32_t one, std::uint32_t other,
                                                             std::string& why);

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
