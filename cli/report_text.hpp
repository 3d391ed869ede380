#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/record/report.hpp"
#include "validate/calibration_choice.hpp"

namespace orrery {

/// Plan, model, workload and machine of what is priced, a line each: what the devices' costs stand on, the software
/// whose costs are in the times, and what was assumed of a cluster in one word.
[[nodiscard]] std::string heading_text(const PlannedRun&, const CalibrationChoice&);
/// The same where nothing is priced.
[[nodiscard]] std::string heading_text(const PlannedRun&);

/// ", adapters of rank 16 (q, v; 32.8 M trained)"; empty where all weights are trained.
[[nodiscard]] std::string adapters_text(const ModelSpec&, const Workload&);

/// Keys of a config.json that nothing here knows, "not read: swiglu_limit, use_mtp"; empty where there are none.
[[nodiscard]] std::string unread_text(const ModelSpec&);

/// The step time that is named first. This is the predicted one; where no software was named it is the middle of the
/// interval (its geometric mean), since the predicted one is that of the usual program alone.
[[nodiscard]] Seconds headline_step(const Report&);
/// The text "14.95 s", or "about 40.4 s" where it is such a middle.
[[nodiscard]] std::string headline_text(const Report&);

/// The interval as a text, "13.2 s to 14.9 s": of the step, and of a rate or share that follows from it when it takes
/// the predicted time; slowest first. The text is "-" without an interval.
[[nodiscard]] std::string step_range(const Report&);
[[nodiscard]] std::string count_range(const Report&, double rate);
[[nodiscard]] std::string percent_range(const Report&, double share);
/// All three in a line that explains them; empty without an interval.
[[nodiscard]] std::string interval_text(const Report&);

/// A report with aligned figures, a memory bar for each stage against the
/// capacity, and the time of each kind of operation.
[[nodiscard]] std::string report_text(const Report&);

/// The last line of a step that does not fit. It says why the exit status is 1; the tables above say so by stage and
/// tier. Empty where it fits.
[[nodiscard]] std::string unfit_text(const std::string& plan, const Report&);

/// One line per pipeline stage: the memory that a process holds, its share of the device as a bar, and the tensors in
/// it. More than 16 stages show the first and last eight.
[[nodiscard]] std::string memory_text(const Report&);
/// The same bars without the tensors.
[[nodiscard]] std::string memory_bars(const Report&);
/// The text "fits, 3.2 GiB to spare on stage 0", or "does not fit: 80.2 GiB of the 79.6 GiB of a device (stage 0)".
[[nodiscard]] std::string verdict_text(const Report&);

/// The layers of the stages, with runs of equal ones folded: "4 x 20", "19 20 20 21".
[[nodiscard]] std::string layers_text(const std::vector<std::uint32_t>&);

/// The mesh as "pipeline 4 > data 2 > tensor 8", outermost first.
[[nodiscard]] std::string mesh_text(const Mesh&);

/// The decisions in which `other` differs from `plan`: "microbatch 2, not 1".
[[nodiscard]] std::vector<std::string> differences(const Plan& other, const Plan& plan);

/// How the step of `other` differs from that of `best`, in compute, waiting for collectives and bubble, which together
/// fill the step: "12.1 % slower: compute +1.2 s, bubble -31 ms".
[[nodiscard]] std::string step_difference(const Report& other, const Report& best);

}  // namespace orrery
