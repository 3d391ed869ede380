#pragma once

#include <vector>

#include "report/page.hpp"
#include "report/reported_plan.hpp"
#include "sweep/measure.hpp"
#include "sweep/points_file.hpp"

namespace orrery {

// The parts of reports, one source file each.

/// Whether it fits, how long a step takes, and the figures that people ask for first.
[[nodiscard]] PageSection verdict_section(const ReportedPlan&);
/// Every figure with its formula and the numbers in it, which a click opens; then the prices of operations, each as a
/// tree of the numbers that it was computed from.
[[nodiscard]] PageSection figures_section(const ReportedPlan&);
/// Each stage's memory against its device, and its tensors at the peak.
[[nodiscard]] PageSection memory_section(const ReportedPlan&);
/// The simulated step, folded to stages, to zoom into.
[[nodiscard]] PageSection timeline_section(const ReportedPlan&);
/// Who sends how much to whom.
[[nodiscard]] PageSection traffic_section(const ReportedPlan&);
/// The operations that decide how long the step takes, and what faster ones would bring.
[[nodiscard]] PageSection path_section(const ReportedPlan&);
/// The plans side by side; from the step of the first to that of each other, part by part.
[[nodiscard]] PageSection comparison_section(const std::vector<ReportedPlan>&);
/// The plan file, and the plan as launches.
[[nodiscard]] PageSection plan_section(const ReportedPlan&);
/// What was assumed, and where all numbers come from.
[[nodiscard]] PageSection provenance_section(const ReportedPlan&);

/// One plan, or several beside the first: the first in full, the others compared and with their plans.
[[nodiscard]] std::string plan_page(const std::vector<ReportedPlan>&);
/// A sweep: its points, what does not fit, curves and front.
[[nodiscard]] std::string sweep_page(const SweepRecord&, const std::vector<const SweepMeasure*>& pareto,
                                     const WholeRun&,
                                     const std::vector<std::pair<std::string, std::string>>& provenance);

}  // namespace orrery
