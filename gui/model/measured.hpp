#pragma once

#include "edit/measure.hpp"
#include "gui/model/prediction.hpp"

namespace orrery::gui {

/// The figure that a lesson asks for, in the measure's unit.
[[nodiscard]] double measured(Measure, const Prediction&);

}  // namespace orrery::gui
