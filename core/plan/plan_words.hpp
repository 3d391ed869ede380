#pragma once

#include <string_view>

#include "core/plan/dimension.hpp"

namespace orrery {

/// Whether a text is a plan in one line: it begins with KEY=.
[[nodiscard]] bool is_plan_words(std::string_view text);

/// A plan in one line: "tp=8 dp=2 mbs=2 recompute=full". Keys of plan files, of the mesh and the workload by their last
/// word or an alias, change `run`; all else stays as it is. Words about the mesh replace it whole: an axis that they do
/// not name has one rank, and data takes what the others leave of the devices. What a change makes meaningless (the
/// layers of other stages) goes back to its default. Requires a cluster. False after a mistake.
///
/// Code: plan.words
[[nodiscard]] bool put_words(PlannedRun& run, std::string_view words, Diagnostics&);

}  // namespace orrery
