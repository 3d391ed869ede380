#pragma once

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// The recorded step whose duration is the median (the lower one of two).
/// Requires at least one.
[[nodiscard]] const Trace& median_trace(const RunResult&);

/// The Report of a run, for its median step, with the accounting that estimate and simulate use
/// (core/record/summarize.hpp), for lanes as the run had them. The loss is that of the last step. Assumptions say how
/// many steps there were, their spread, which memory was taken outside the Program's buffers, what learned routing did
/// beside the room that the Program had, and whether the threads got the cores that they needed.
[[nodiscard]] Report report_of(const PlannedRun&, const Program&, const RunResult&);

}  // namespace orrery
