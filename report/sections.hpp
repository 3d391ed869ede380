#pragma once

#include <vector>

#include "report/page.hpp"
#include "report/reported_plan.hpp"
#include "sweep/measure.hpp"
#include "sweep/points_file.hpp"

namespace orrery {

// The parts of reports, one source file each. `id` begins the ids of all that stands in a part, so that several plans
// fit on one page.

/// Whether it fits, how long a step takes, and the figures that people ask for first.
[[nodiscard]] PageSection verdict_section(const ReportedPlan&, const std::string& id);
/// Every figure with its formula and the numbers in it, which a click opens; then the prices of operations, each as a
/// tree of the numbers that it was computed from.
[[nodiscard]] PageSection figures_section(const ReportedPlan&, const std::string& id);
/// Each stage's memory against its device, and its tensors at the peak.
[[nodiscard]] PageSection memory_section(const ReportedPlan&, const std::string& id);
/// The simulated step, folded to stages, to zoom into.
[[nodiscard]] PageSection timeline_section(const ReportedPlan&, const std::string& id);
/// Who sends how much to whom.
[[nodiscard]] PageSection traffic_section(const ReportedPlan&, const std::string& id);
/// The operations that decide how long the step takes, and what faster ones would bring.
[[nodiscard]] PageSection path_section(const ReportedPlan&, const std::string& id);
/// The plans side by side; from the step of the first to that of each other, part by part.
[[nodiscard]] PageSection comparison_section(const std::vector<ReportedPlan>&, const std::string& id);
/// The plan file, and the plan as launches.
[[nodiscard]] PageSection plan_section(const ReportedPlan&, const std::string& id);
/// What was assumed, and where all numbers come from.
[[nodiscard]] PageSection provenance_section(const ReportedPlan&, const std::string& id);

/// One plan, or several beside the first: the first in full, the others compared and with their plans.
[[nodiscard]] std::string plan_page(const std::vector<ReportedPlan>&);
/// A sweep: its points, what does not fit, curves and front.
[[nodiscard]] std::string sweep_page(const SweepRecord&, const std::vector<const SweepMeasure*>& pareto,
                                     const WholeRun&,
                                     const std::vector<std::pair<std::string, std::string>>& provenance);

}  // namespace orrery
