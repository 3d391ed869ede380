#pragma once

#include "core/record/profiled_step.hpp"
#include "gui/model/timeline.hpp"

namespace orrery::gui {

/// A profiled step as it is drawn, with each rank in its place in the program's pipeline. It has a lane of what the
/// device computes, on any stream, and for each stream a lane of its collectives, messages and copies. Names are kinds
/// of work; OpIds number a rank's runs.
[[nodiscard]] Timeline make_timeline(const Program&, const ProfiledStep&);

}  // namespace orrery::gui
